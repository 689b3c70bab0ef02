"use strict";
// Headers of sortable tables become buttons; filters hide rows.
(() => {
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = text === "" ? NaN : Number(text);
    return { text, number };
  };

  const compare = (left, right) => {
    if (!Number.isNaN(left.number) && !Number.isNaN(right.number)) return left.number - right.number;
    return left.text.localeCompare(right.text, "en", { numeric: true });
  };

  const sort = (table, header, column) => {
    const descending = header.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows].map((row) => ({ row, key: key(row, column) }));
    rows.sort((left, right) => {
      const empty = (left.key.text === "") - (right.key.text === "");  // last, either way
      return empty || (descending ? -1 : 1) * compare(left.key, right.key);
    });
    table.tBodies[0].append(...rows.map(({ row }) => row));
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      button.addEventListener("click", () => sort(table, header, column));
      header.append(button);
    });
  }

  for (const input of document.querySelectorAll("input[data-filters]")) {
    const rows = [...document.getElementById(input.dataset.filters).tBodies[0].rows];
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
  }
})();
