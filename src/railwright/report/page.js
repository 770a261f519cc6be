// SPDX-License-Identifier: GPL-3.0-or-later
"use strict";
// Filters of report.html. Without it every row is shown.
(() => {
  const words = document.getElementById("words");
  if (!words) return;
  const rows = [...document.querySelectorAll("#rows tbody tr")].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const boxes = [...document.querySelectorAll("form input[type=checkbox]")];
  const buttons = [...document.querySelectorAll("ul.grid button")];
  const shown = document.getElementById("shown");
  let node = null;
  const filter = () => {
    const results = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let many = 0;
    for (const { row, text } of rows) {
      const fits = results.has(row.dataset.result) && (node === null || row.dataset.node === node) && wanted.every((word) => text.includes(word));
      row.hidden = !fits;
      many += fits;
    }
    shown.textContent = `${many} of ${rows.length} rows` + (node === null ? "" : ` of ${node}`);
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      node = node === button.dataset.node ? null : button.dataset.node;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other.dataset.node === node));
      filter();
      if (node !== null) document.getElementById("findings").scrollIntoView();
    });
  }
  for (const part of [words, ...boxes]) part.addEventListener("input", filter);
  words.form.addEventListener("submit", (event) => event.preventDefault());
})();
