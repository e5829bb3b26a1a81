// Charts as SVG files and tables as CSV files, made by the page itself.
(() => {
  // Styles that a file needs, with the values that need not be written.
  const STYLES = { fill: "", stroke: "none", "stroke-width": "", "stroke-dasharray": "none", "stroke-linejoin": "miter", "stroke-linecap": "butt", opacity: "1" };
  const TEXT_STYLES = { fill: "", "font-size": "" };

  function save(name, type, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    const whole = `${study.name.slice(0, 60)}-${name}${type === "text/csv" ? ".csv" : ".svg"}`;
    link.download = whole.replace(/[^\p{L}\p{N}.-]+/gu, "_");
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function button(text, label, press) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "save";
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.addEventListener("click", press);
    return made;
  }

  // A picture with its title above and its legend below, in light colours; all styles are written into the elements.
  function svgFile(picture, title, legend) {
    const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
    const top = title ? 26 : 6;
    const body = make("g", { transform: `translate(0 ${top})` }, ...picture.cloneNode(true).childNodes);
    body.querySelector(".marks")?.remove(); // what the pointer reads
    const file = make("svg", { class: picture.getAttribute("class") ?? "" }, make("rect", { class: "paper", width: "100%", height: "100%" }), body);
    if (title) file.append(make("text", { x: 8, y: 18 }, title.length > width / 7 ? `${title.slice(0, width / 7)}\u2026` : title));
    let [x, y] = [8, top + height + 14];
    for (const { curve, name, hasPoint } of legend) {
      const shown = name.length > 60 ? `${name.slice(0, 59)}\u2026` : name;
      const wide = 48 + 7 * shown.length;
      if (x > 8 && x + wide > width) [x, y] = [8, y + 18];
      file.append(make("path", { class: `line ${look(curve)}`, d: `M${x},${y - 4}h30` }));
      if (hasPoint) file.append(make("path", { class: `point ${look(curve)}`, d: `M${x + 15},${y - 4}h.01` }));
      file.append(make("text", { x: x + 36, y }, shown));
      x += wide;
    }
    const tall = legend.length ? y + 10 : top + height + 4;
    for (const [key, value] of Object.entries({ viewBox: `0 0 ${width} ${tall}`, width, height: tall })) file.setAttribute(key, value);

    const theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    picture.after(file); // styles depend on where it is; it is gone before anything is painted
    for (const part of [...file.querySelectorAll("*")]) {
      const style = getComputedStyle(part);
      if (style.display === "none" && !part.closest("defs") && part.tagName !== "title") part.remove();
      if (part.closest("defs, title") || part.tagName === "g") continue;
      for (const [name, usual] of Object.entries(part.tagName === "text" ? TEXT_STYLES : STYLES)) {
        if (style.getPropertyValue(name) !== usual) part.setAttribute(name, style.getPropertyValue(name));
      }
    }
    file.setAttribute("font-family", getComputedStyle(file).fontFamily);
    file.remove();
    if (theme === undefined) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    for (const part of [file, ...file.querySelectorAll("[class], [data-curve]")]) {
      part.removeAttribute("class");
      part.removeAttribute("data-curve");
    }
    return new XMLSerializer().serializeToString(file);
  }

  // A spreadsheet would run a text that begins like a formula: an apostrophe before it says that it is text.
  function csvCell(value) {
    const text = /^[=+\-@\t\r]/.test(value) && !Number.isFinite(Number(value)) ? `'${value}` : value;
    return /[",\r\n]/.test(text) || text !== text.trim() ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function words(cell) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) if (walker.currentNode.data.trim()) found.push(walker.currentNode.data);
    return found.join(", ");
  }

  // A cell with several numbers becomes several columns: a value and its interval, or a count and its total.
  function csvFile(table) {
    const rows = [...table.tBodies[0].rows];
    const columns = [];
    [...table.tHead.rows[0].cells].forEach((heading, i) => {
      if (heading.dataset.fixed !== undefined) return; // a picture
      const values = rows.map(({ cells: { [i]: cell } }) =>
        cell.dataset.sort === undefined || cell.dataset.text !== undefined
          ? [words(cell)]
          : cell.dataset.sort.split(" ").map((v) => (Number.isFinite(Number(v)) ? v : "")),
      );
      const parts = Math.max(1, ...values.map((v) => v.length));
      const endings = parts === 3 ? ["", ", low", ", high"] : parts === 2 ? ["", ", of"] : [""];
      endings.forEach((ending, part) => columns.push([words(heading) + ending, ...values.map((v) => v[part] ?? "")]));
    });
    const lines = columns[0].map((_, row) => columns.map((column) => csvCell(column[row])).join(","));
    return lines.join("\r\n") + "\r\n";
  }

  function saveFigures(place, name, legend) {
    place.querySelectorAll("figure").forEach((figure, i) => {
      const [caption, picture] = [figure.querySelector("figcaption").textContent, figure.querySelector("svg")];
      const press = () => save(`${name}-${i + 1}`, "image/svg+xml", svgFile(picture, caption, legend()));
      figure.append(button("SVG", `Save as SVG: ${caption}`, press));
    });
  }

  for (const block of document.querySelectorAll(".plot")) {
    const name = block.dataset.key;
    const hasPoint = block.querySelector(".legend .point") !== null;
    const legend = () =>
      [...block.querySelectorAll(".legend li")]
        .filter((item) => item.querySelector("[aria-pressed=false]") === null)
        .map((item) => ({ curve: +item.dataset.curve, name: item.textContent, hasPoint }));
    const press = () => {
      const list = block.querySelector("select[name=setting]");
      const title = (list ? list.selectedOptions[0] : block.querySelector("figcaption")).textContent;
      save(name, "image/svg+xml", svgFile(block.querySelector(".chart svg"), title, legend()));
    };
    block.querySelector(".controls").append(button("SVG", "Save the chart as SVG", press));
    saveFigures(block, name, legend);
  }
  for (const rows of document.querySelectorAll(".overview.rows")) saveFigures(rows, rows.closest("section").id, () => []);
  for (const table of document.querySelectorAll(".scroll > table")) {
    const saved = button("CSV", `Save as CSV: ${table.caption.textContent}`, () => save(table.id, "text/csv", csvFile(table)));
    table.parentElement.after(saved);
  }
})();
