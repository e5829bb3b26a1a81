// Charts of curves, each of one environment setting: curves that can be hidden, axes linear or logarithmic, values
// under the pointer. Points with intervals are drawn instead of lines with bands where the horizontal axis has few values.
const study = JSON.parse(document.getElementById("study-data").textContent);

function make(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const colour = (curve) => `curve-${curve % study.colours}`;
const look = (curve) => `${colour(curve)} dash-${curve % study.dashes}`;

function plot(block, data) {
  const chart = block.querySelector(".chart");
  const controls = block.querySelector(".controls");
  const note = block.querySelector(".about");
  const tip = block.querySelector(".tip");
  const what = chart.getAttribute("aria-label");
  const names = new Map(data.names);
  const chosen = {
    setting: controls.elements.setting ?? { value: "0", addEventListener() {} }, // no list for a single setting
    view: controls.elements.view,
    logX: controls.elements["log-x"],
    logY: controls.elements["log-y"],
  };
  const hidden = new Set();
  let drawing = null; // what the pointer needs: scales and cells as drawn
  let at = null; // index of the value that is read, into drawing.xs

  function shownCells(isLogX) {
    const view = +chosen.view.value;
    return data.settings[+chosen.setting.value].cells
      .filter((cell) => !hidden.has(cell.curve))
      .map((cell) => {
        const [line, low, high] = cell.views[view];
        const xs = data.xs[cell.x];
        const keep = (values) => values.filter((_, i) => !isLogX || xs[i] > 0);
        return { curve: cell.curve, xs: keep(xs), line: keep(line), low: keep(low), high: keep(high) };
      });
  }

  // The interval of all values, and whether a logarithm of it exists.
  function domainY(cells, isLog) {
    const all = cells.flatMap((cell) => [...cell.line, ...cell.high]).filter((v) => v !== null);
    const high = Math.max(...all.filter((v) => v > 0), 0);
    if (!isLog || high === 0) return [Math.min(0, ...cells.flatMap((cell) => cell.low)), high || 1];
    const low = Math.min(...cells.flatMap((cell) => cell.line).filter((v) => v > 0)) / 1.25; // room below
    return [Math.max(low, high / 1e8), high];
  }

  function scale([low, high], [from, to], isLog) {
    const f = isLog ? Math.log10 : (v) => v;
    const slope = (to - from) / (f(high) - f(low) || 1);
    return (value) => from + (f(value) - f(low)) * slope;
  }

  function paths(cell, x, y, isLogY, bottom) {
    const drawn = { line: "", band: "", whisker: "", point: "" };
    let pen = "M";
    const upper = [];
    const lower = [];
    cell.xs.forEach((value, i) => {
      const middle = cell.line[i];
      if (middle === null || (isLogY && middle <= 0)) {
        pen = "M";
        return;
      }
      const across = (x(value) + cell.shift).toFixed(1);
      drawn.line += `${pen}${across},${y(middle).toFixed(1)}`;
      drawn.point += `M${across},${y(middle).toFixed(1)}h.01`;
      pen = "L";
      if (cell.high[i] === null || cell.low[i] === null) return;
      const low = (isLogY && cell.low[i] <= 0 ? bottom : Math.min(y(cell.low[i]), bottom)).toFixed(1);
      const high = y(cell.high[i]).toFixed(1);
      drawn.whisker += `M${across},${low}V${high}`;
      upper.push(`${across},${high}`);
      lower.unshift(`${across},${low}`);
    });
    if (upper.length > 1) drawn.band = `M${[...upper, ...lower].join("L")}Z`;
    return drawn;
  }

  function draw() {
    const width = Math.max(260, chart.clientWidth);
    const height = Math.round(Math.min(460, Math.max(250, width * 0.5)));
    const isLogX = chosen.logX.checked;
    const cells = shownCells(isLogX);
    const xs = [...new Set(cells.flatMap((cell) => cell.xs))].sort((a, b) => a - b);
    const last = xs.length ? xs[xs.length - 1] : 1;
    const first = data.points ? (xs[0] ?? 0) : isLogX ? Math.min(xs[0] || 1, last / 1.01) : 0;
    const rangeY = domainY(cells, chosen.logY.checked);
    const isLogY = chosen.logY.checked && rangeY[0] > 0;
    const ticksY = (isLogY ? numbers.logTicks : numbers.linearTicks)(...rangeY, height / 55);
    const left = 26 + 7.2 * Math.max(2, ...ticksY.map((v) => numbers.tick(v).length));
    const [right, top, bottom] = [width - 14, 12, height - 44];
    const inset = data.points ? 24 : 0;
    const x = scale([first, last], [left + inset, right - inset], isLogX);
    const y = scale(rangeY, [bottom, top], isLogY);
    const ticksX = data.points
      ? numbers.apart(xs, x)
      : (isLogX ? numbers.logTicks : numbers.linearTicks)(first, last, width / 90);
    const step = Math.min(5, 40 / cells.length); // intervals of several curves stand side by side
    cells.forEach((cell, i) => (cell.shift = data.points ? (i - (cells.length - 1) / 2) * step : 0));

    const picture = make("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
    const inside = `plot-area-${data.key}`;
    const clip = make("clipPath", { id: inside }, make("rect", { x: left, y: top - 2, width: right - left + 2, height: bottom - top + 4 }));
    picture.append(make("defs", {}, clip));
    for (const v of ticksY) {
      picture.append(
        make("line", { class: "grid", x1: left, x2: right, y1: y(v), y2: y(v) }),
        make("text", { class: "tick-y", x: left - 6, y: y(v) + 4, "text-anchor": "end" }, numbers.tick(v)),
      );
    }
    for (const v of ticksX) {
      picture.append(
        make("line", { class: "axis", x1: x(v), x2: x(v), y1: bottom, y2: bottom + 5 }),
        make("text", { class: "tick-x", x: x(v), y: bottom + 18, "text-anchor": x(v) > right - 20 ? "end" : "middle" }, numbers.tick(v)),
      );
    }
    const most = Math.floor((right - left) / 7); // letters of a title
    const titleX = data.x.length > most ? `${data.x.slice(0, most - 1)}\u2026` : data.x;
    picture.append(
      make("path", { class: "axis", d: `M${left},${top}V${bottom}H${right}` }),
      make("text", { class: "title-x", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, titleX + (isLogX ? " (log)" : "")),
      make("text", { class: "title-y", x: -(top + bottom) / 2, y: 13, transform: "rotate(-90)", "text-anchor": "middle" }, data.y + (isLogY ? " (log)" : "")),
    );
    const area = make("g", { "clip-path": `url(#${inside})` });
    const drawn = cells.map((cell) => ({ ...cell, ...paths(cell, x, y, isLogY, bottom) }));
    const layers = data.points ? ["line", "whisker", "point"] : ["band", "line"];
    for (const layer of layers) {
      const filled = layer === "band" ? "band fill" : layer;
      for (const cell of drawn) {
        area.append(make("path", { class: `${filled} ${look(cell.curve)}`, "data-curve": cell.curve, d: cell[layer] }));
      }
    }
    const marks = make("g", { class: "marks" });
    picture.append(area, marks);
    chart.querySelector("svg")?.remove();
    chart.prepend(picture);
    drawing = { cells, xs, x, y, isLogY, marks, width, top, bottom, left, right };
    read(at === null ? null : Math.min(at, xs.length - 1));

    const view = data.views[+chosen.view.value];
    const missing = isLogY ? drawn.filter((cell) => !cell.line).map((cell) => names.get(cell.curve)) : [];
    const isCut = isLogX && data.xs.some((values) => values.some((v) => v <= 0));
    const [line, band] = data.points ? ["Points", "Bars"] : ["Line", "Band"];
    note.textContent =
      `${data.about} ${line}: ${view.line}. ${band}: ${view.band}.` +
      (missing.length ? ` Zero regret has no place on a logarithmic axis: ${missing.join(", ")}.` : "") +
      (isCut ? ` Values that are not positive have no place on a logarithmic axis.` : "");
    const setting = data.settings[+chosen.setting.value].label;
    chart.setAttribute("aria-label", `${what} by ${data.x}, ${setting}: read values with the arrow keys`);
  }

  // The values of all shown curves at one value of the horizontal axis: crosshair, dots, tooltip, and the same in words.
  function read(index) {
    at = index;
    const { cells, xs, marks } = drawing;
    marks.replaceChildren();
    tip.hidden = index === null || index < 0;
    if (tip.hidden) {
      chart.removeAttribute("aria-valuenow");
      chart.setAttribute("aria-valuetext", "no value is read");
      return;
    }
    const x = xs[index];
    const rows = cells
      .map((cell) => ({ cell, i: cell.xs.indexOf(x) }))
      .filter(({ cell, i }) => i >= 0 && cell.line[i] !== null)
      .sort((a, b) => b.cell.line[b.i] - a.cell.line[a.i]);
    const across = drawing.x(x);
    marks.append(make("line", { class: "cross", x1: across, x2: across, y1: drawing.top, y2: drawing.bottom }));
    const head = document.createElement("strong");
    head.textContent = data.reading + numbers.whole(x);
    const table = document.createElement("table");
    const words = [head.textContent];
    for (const { cell, i } of rows) {
      const value = cell.line[i];
      if (!drawing.isLogY || value > 0) {
        marks.append(make("circle", { class: `dot fill ${colour(cell.curve)}`, cx: across + cell.shift, cy: drawing.y(value), r: 4 }));
      }
      const line = table.insertRow();
      const sample = make("svg", { class: "swatch", viewBox: "0 0 30 12" }, make("path", { class: `line ${look(cell.curve)}`, d: "M0,6H30" }));
      line.insertCell().append(sample);
      const name = line.insertCell();
      name.className = "name";
      const isolated = document.createElement("bdi");
      isolated.textContent = names.get(cell.curve);
      name.append(isolated);
      const number = line.insertCell();
      number.className = "number";
      number.textContent = numbers.interval(value, cell.low[i], cell.high[i]);
      words.push(`${names.get(cell.curve)}: ${number.textContent}`);
    }
    tip.replaceChildren(head, table);
    place(across);
    chart.setAttribute("aria-valuenow", x);
    chart.setAttribute("aria-valuetext", words.join("; "));
  }

  // Beside the crosshair, on the side with more room; narrow pages have it below the chart, by their style sheet.
  function place(across) {
    const ratio = chart.clientWidth / drawing.width;
    const isRight = across < (drawing.left + drawing.right) / 2;
    const wanted = isRight ? across * ratio + 14 : across * ratio - 14 - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(wanted, chart.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${drawing.top + 4}px`;
  }

  function nearest(event) {
    const box = chart.querySelector("svg").getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * drawing.width;
    let best = null;
    drawing.xs.forEach((value, i) => {
      const distance = Math.abs(drawing.x(value) - wanted);
      if (best === null || distance < best.distance) best = { i, distance };
    });
    return best && best.i;
  }

  function press(event) {
    const last = drawing.xs.length - 1;
    const from = at === null ? last : at;
    const step = Math.max(1, Math.round(last / 10));
    const moves = { ArrowLeft: from - 1, ArrowDown: from - 1, ArrowRight: from + 1, ArrowUp: from + 1, PageDown: from - step, PageUp: from + step, Home: 0, End: last };
    if (event.key === "Escape") read(null);
    else if (event.key in moves && last >= 0) read(Math.max(0, Math.min(last, moves[event.key])));
    else return;
    event.preventDefault();
  }

  // The legend's entries become switches, and the overview's captions choose the setting of the chart.
  function switchFor(item, press) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...item.childNodes);
    button.addEventListener("click", press);
    item.append(button);
    return button;
  }

  function show(curve, isShown) {
    hidden[isShown ? "delete" : "add"](curve);
    switches.get(curve).setAttribute("aria-pressed", isShown);
    for (const path of block.querySelectorAll(`.overview [data-curve="${curve}"]`)) path.classList.toggle("off", !isShown);
  }

  const switches = new Map(
    [...block.querySelectorAll(".legend li")].map((item) => {
      const curve = +item.dataset.curve;
      item.classList.add("switch");
      const button = switchFor(item, () => {
        show(curve, hidden.has(curve));
        draw();
      });
      return [curve, button];
    }),
  );
  for (const [name, isShown] of [["all", true], ["none", false]]) {
    controls.elements[name].addEventListener("click", () => {
      for (const curve of switches.keys()) show(curve, isShown);
      draw();
    });
  }
  const overview = block.querySelector(".overview");
  const captions = [...overview.querySelectorAll("figcaption")].map((caption, setting) =>
    switchFor(caption, () => {
      chosen.setting.value = setting;
      choose();
      block.scrollIntoView();
    }),
  );

  function choose() {
    captions.forEach((caption, setting) => caption.setAttribute("aria-pressed", setting === +chosen.setting.value));
    draw();
  }

  for (const curve of switches.keys()) show(curve, true);
  chosen.logX.checked = data.logX;
  chosen.logY.checked = data.logY;
  for (const control of Object.values(chosen)) control.addEventListener("change", choose);
  controls.addEventListener("submit", (event) => event.preventDefault());
  chart.addEventListener("pointermove", (event) => read(nearest(event)));
  chart.addEventListener("pointerdown", (event) => read(nearest(event)));
  chart.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && read(null));
  chart.addEventListener("keydown", press);
  for (const part of block.querySelectorAll(".enhanced")) part.hidden = false;
  if (data.settings.length === 1) overview.hidden = true; // the chart shows it already
  choose();
  new ResizeObserver(() => {
    if (Math.abs(chart.clientWidth - drawing.width) > 1) draw();
  }).observe(chart);
}

document.querySelectorAll(".plot").forEach((block, i) => plot(block, study.charts[i]));

// Pictures that are folded on the screen are printed.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details.many")) folded.open = true;
});
