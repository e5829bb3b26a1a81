// Tables are sorted by their headings and narrowed to one environment setting; both keep the page's own order otherwise.
(() => {
  function key(row, column) {
    const cell = row.cells[column];
    const given = cell.dataset.sort;
    return given === undefined ? cell.textContent : given === "" ? null : parseFloat(given); // the first of several
  }

  function compare(a, b) {
    return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
  }

  function sort(table, column, heading) {
    const isUp = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isUp ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows].map((row) => ({ row, key: key(row, column) }));
    rows.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null); // what is missing comes last
      return isUp ? compare(a.key, b.key) : compare(b.key, a.key);
    });
    table.classList.add("sorted");
    table.tBodies[0].append(...rows.map(({ row }) => row));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      if (heading.dataset.fixed !== undefined) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(table, column, heading));
      heading.append(button);
    });
  }

  for (const filter of document.querySelectorAll("form.filter")) {
    const table = document.getElementById(filter.dataset.table);
    filter.hidden = false;
    filter.addEventListener("submit", (event) => event.preventDefault());
    filter.elements.setting.addEventListener("change", (event) => {
      const wanted = event.target.value;
      for (const row of table.tBodies[0].rows) row.hidden = wanted !== "" && row.dataset.setting !== wanted;
    });
  }
})();
