// Maps that follow the switches, the numbers of a cell, and the curves of a column.
(() => {
  const { panels, players, colours, dashes, size, folder } = JSON.parse(document.getElementById("study-data").textContent);
  for (const panel of panels) panel.players = players[panel.players];
  const controls = document.querySelector(".switches");
  const readout = document.querySelector(".readout");
  const column = document.getElementById("column");
  const hue = (player) => `curve-${player.curve % colours}`;
  const around = (value, half) => numbers.interval(value, value - half, value + half);
  let chosen = null; // the button whose column is shown

  function make(name, attributes, ...children) {
    const isDrawn = ["svg", "path", "text", "line"].includes(name);
    const node = isDrawn ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function place(button) {
    const panel = panels[button.closest(".map").dataset.panel];
    const [mode, wanted] = [controls.elements.mode.value, controls.elements.scope.value];
    const scope = `${mode} ${wanted}` in panel.verdicts ? wanted : "R"; // nobody is told variances in episodes
    const key = `${mode} ${scope}`;
    const [x, k] = [+button.dataset.x, +button.dataset.k];
    const [first, second, difference, low, high, open] = panel.verdicts[key][x][k];
    return { panel, key, scope, x, k, first, second, difference, low, high, open };
  }

  // Whether the two kinds are separated: none of the other kind is among the rivals that are open.
  const isOpen = ({ panel, first, open }) =>
    controls.elements.view.value === "algorithm"
      ? open.length > 0
      : open.some((rival) => panel.players[rival].adapts !== panel.players[first].adapts);

  function words(at) {
    const { panel, key, x, k, first, second, difference, low, high, open } = at;
    const note = panel.notes.length ? ` (${panel.notes[x]})` : "";
    const value = (i) => around(panel.mean[i][x][k], panel.half[i][x][k]);
    const rest = open.filter((rival) => rival !== second).map((rival) => panel.players[rival].label);
    return (
      `${panel.title}, ${panel.axis} = ${panel.x[x]}${note}, K = ${numbers.whole(panel.rounds[k])}: ` +
      `${panel.players[first].label} ${value(first)}, then ${panel.players[second].label} ${value(second)}; ` +
      `difference ${numbers.interval(difference, low, high)} at ${panel.levels[key]} %, ` +
      (open.includes(second) ? "not separated" : "separated") +
      (rest.length ? `; not separated either: ${rest.join(", ")}.` : ".")
    );
  }

  function read(button) {
    readout.textContent = words(place(button));
  }

  function paint() {
    for (const block of document.querySelectorAll("section")) {
      const shown = new Map();
      for (const button of block.querySelectorAll(".map:not([hidden]) .cell")) {
        const at = place(button);
        const player = at.panel.players[at.first];
        const byKind = controls.elements.view.value === "adapts";
        const colour = byKind ? (player.adapts ? "curve-0" : "curve-5") : hue(player);
        button.className = `cell ${colour}${isOpen(at) ? " open" : ""}`;
        button.textContent = player.code;
        button.setAttribute("aria-label", words(at));
        const name = player.label.replace(/ \([^()]*\)$/, "");
        shown.set(player.code, { colour, name: byKind ? `${name}: ${player.adapts ? "adapts" : "does not adapt"}` : name, curve: player.curve });
      }
      const keys = [...shown].sort((a, b) => a[1].curve - b[1].curve);
      block.querySelector(".keys")?.replaceChildren(
        ...keys.map(([code, { colour, name }]) => make("li", {}, make("span", { class: `key ${colour}` }, code), name)),
      );
    }
    if (chosen) show(chosen);
  }

  // The regret of all algorithms of a column against K, on logarithmic axes.
  function chart({ panel, x, k }, shown) {
    const width = Math.max(280, column.querySelector(".chart").clientWidth);
    const [height, left, right, top, bottom] = [320, 62, width - 14, 12, 278];
    const values = shown.flatMap((i) => panel.mean[i][x]).filter((v) => v > 0);
    const ends = [Math.min(...values) / 1.2, Math.max(...values) * 1.2];
    const rounds = [panel.rounds[0], panel.rounds[panel.rounds.length - 1]];
    const scale = ([low, high], from, to) => (v) => from + (Math.log(v / low) / (Math.log(high / low) || 1)) * (to - from);
    const [across, up] = [scale(rounds, left + 8, right - 8), scale(ends, bottom, top)];
    const picture = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Mean regret against K; the table below has the numbers" });
    for (const v of numbers.logTicks(...ends, 5)) {
      picture.append(make("line", { class: "grid", x1: left, x2: right, y1: up(v), y2: up(v) }));
      picture.append(make("text", { x: left - 6, y: up(v) + 4, "text-anchor": "end" }, numbers.tick(v)));
    }
    for (const v of numbers.apart(panel.rounds, across)) {
      picture.append(make("text", { x: across(v), y: bottom + 18, "text-anchor": "middle" }, numbers.tick(v)));
    }
    const title = (attributes, text) => picture.append(make("text", { "text-anchor": "middle", ...attributes }, text));
    title({ x: (left + right) / 2, y: height - 6 }, `K, ${panel.unit}s (log)`);
    title({ x: -(top + bottom) / 2, y: 13, transform: "rotate(-90)" }, "mean regret (log)");
    picture.append(make("line", { class: "cross", x1: across(panel.rounds[k]), x2: across(panel.rounds[k]), y1: top, y2: bottom }));
    for (const i of shown) {
      const points = panel.rounds.map((r, j) => [r, panel.mean[i][x][j], panel.half[i][x][j]]).filter(([, v]) => v > 0);
      const [player, at] = [panel.players[i], (v) => Math.min(bottom, up(Math.max(v, ends[0]))).toFixed(1)];
      const line = points.map(([r, v], j) => `${j ? "L" : "M"}${across(r).toFixed(1)},${at(v)}`).join("");
      const bars = points.map(([r, v, half]) => `M${across(r).toFixed(1)},${at(v - half)}V${at(v + half)}`).join("");
      picture.append(make("path", { class: `line ${hue(player)} dash-${player.curve % dashes}`, d: line }));
      picture.append(make("path", { class: `whisker ${hue(player)}`, d: bars }));
    }
    picture.append(make("path", { class: "axis", d: `M${left},${top}V${bottom}H${right}` }));
    return picture;
  }

  function heldHere(panel, i) {
    if (!panel.covered[i]) return "not recorded";
    const [share, low, high, x] = panel.covered[i];
    return `${share} % [${low}, ${high}] of ${panel.seeds} seeds at ${panel.axis} = ${panel.x[x]}, the least of the map`;
  }

  function show(button) {
    const at = place(button);
    const { panel, scope, x, k } = at;
    const mode = controls.elements.mode.value;
    const shown = panel.players.map((_, i) => i).filter((i) => panel.players[i].modes.includes(mode) && (scope === "all" || !panel.players[i].told));
    const well = shown.filter((i) => panel.mean[i][x][k] !== null).sort((a, b) => panel.mean[a][x][k] - panel.mean[b][x][k]);
    document.querySelectorAll(".map .cell").forEach((cell) => {
      cell.toggleAttribute("aria-current", false);
      const isNear = cell.closest(".map") === button.closest(".map") && cell.dataset.x === button.dataset.x;
      cell.classList.toggle("same-column", isNear);
    });
    button.setAttribute("aria-current", "true");
    column.querySelector(".none").hidden = true;
    column.querySelector(".chosen").hidden = false;
    column.querySelector(".name").textContent = words(at);
    column.querySelector(".chart").replaceChildren(chart(at, well));
    const head = make("tr", {}, ...["", "Algorithm", ...panel.rounds.map((r) => `K = ${numbers.whole(r)}`), "Constants", "Proof", "Event held here", "Event held elsewhere"].map((text) => make("th", { scope: "col" }, text)));
    const lines = [...well, ...shown.filter((i) => !well.includes(i))].map((i) => {
      const player = panel.players[i];
      const swatch = make("svg", { class: "swatch", viewBox: "0 0 30 12", "aria-hidden": "true" }, make("path", { class: `line ${hue(player)} dash-${player.curve % dashes}`, d: "M0,6H30" }));
      const held = heldHere(panel, i);
      const regret = panel.rounds.map((_, j) => (panel.mean[i][x][j] === null ? "a seed failed" : around(panel.mean[i][x][j], panel.half[i][x][j])));
      const numeric = regret.map((text) => make("td", { class: "number" }, text));
      const known = [...player.known, held, player.measured.join("; ") || "not measured"].map((text, j) => make("td", { class: j ? "known" : "" }, text));
      return make("tr", {}, make("td", {}, swatch), make("td", {}, player.label), ...numeric, ...known);
    });
    column.querySelector("thead").replaceChildren(head);
    column.querySelector("tbody").replaceChildren(...lines);
    const file = column.querySelector(".file");
    file.textContent = `${folder}/${panel.study}.toml`;
    file.setAttribute("href", `${panel.study}.toml`);
    column.querySelector(".hash").textContent = panel.hash;
    column.querySelector(".command").textContent =
      `jaxvar run ${folder}/${panel.study}.toml --out results/atlas/${size}/${panel.study}\npython -m experiments atlas --size ${size} --maps ${panel.study}`;
  }

  for (const map of document.querySelectorAll(".map")) {
    const at = (x, k) => map.querySelector(`.cell[data-x="${x}"][data-k="${k}"]`);
    map.addEventListener("pointerover", (event) => event.target.matches(".cell") && read(event.target));
    map.addEventListener("focusin", (event) => {
      if (!event.target.matches(".cell")) return;
      for (const cell of map.querySelectorAll(".cell")) cell.tabIndex = cell === event.target ? 0 : -1;
      read(event.target);
    });
    map.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      if (!(event.key in moves) || !event.target.matches(".cell")) return;
      at(+event.target.dataset.x + moves[event.key][0], +event.target.dataset.k + moves[event.key][1])?.focus();
      event.preventDefault();
    });
    map.addEventListener("click", (event) => {
      if (!event.target.matches(".cell")) return;
      choose(event.target);
      history.replaceState(null, "", `#${address(chosen)}`);
    });
  }

  function choose(cell) {
    chosen = cell;
    show(chosen);
    column.scrollIntoView();
  }

  // The address of a cell: the part after # in a link to it.
  const plain = (title) => title.toLowerCase().match(/[a-z0-9]+/g).join("-");
  function address(cell) {
    const { panel, scope, x, k } = place(cell);
    const mode = controls.elements.mode.value;
    return new URLSearchParams({ map: plain(panel.title), x: panel.x[x], k: panel.rounds[k], constants: mode, told: scope });
  }
  function follow() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const index = panels.findIndex((panel) => plain(panel.title) === wanted.get("map"));
    if (index < 0) return;
    const [panel, map] = [panels[index], document.querySelector(`.map[data-panel="${index}"]`)];
    const [x, k] = [panel.x.indexOf(+wanted.get("x")), panel.rounds.indexOf(+wanted.get("k"))];
    const cell = map.querySelector(`.cell[data-x="${x}"][data-k="${k}"]`);
    if (!cell) return;
    for (const [name, value] of [["mode", wanted.get("constants")], ["scope", wanted.get("told")]]) {
      const list = controls.elements[name];
      if ([...list.options].some((option) => option.value === value)) list.value = value;
    }
    for (const box of facets?.querySelectorAll("input") ?? []) box.checked ||= map.dataset[box.name] === box.value;
    facets ? filter() : paint();
    choose(cell);
  }
  // Maps whose arms, noise and dimension are all ticked.
  const facets = document.querySelector(".facets");
  function filter() {
    const ticked = (name) => [...facets.querySelectorAll(`[name="${name}"]`)].filter((box) => box.checked).map((box) => box.value);
    const names = new Set([...facets.elements].filter((box) => box.name).map((box) => box.name));
    const maps = [...document.querySelectorAll("#bandits .map")];
    for (const map of maps) map.hidden = [...names].some((name) => !ticked(name).includes(map.dataset[name]));
    facets.querySelector(".count").textContent = `${maps.filter((map) => !map.hidden).length} of ${maps.length} maps are shown.`;
    paint();
  }
  if (facets) {
    facets.addEventListener("submit", (event) => event.preventDefault());
    facets.addEventListener("change", filter);
    facets.hidden = false;
  }
  column.querySelector(".back").addEventListener("click", () => chosen.focus());
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("change", paint);
  controls.hidden = false;
  readout.hidden = false;
  readout.textContent = "Point at a cell to read its numbers.";
  facets ? filter() : paint();
  window.addEventListener("hashchange", follow);
  follow();
})();
