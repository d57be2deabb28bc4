"use strict";
// Shows the progress of a task, and filters the columns of a wide table.
// While a task runs, loads this page again and replaces its live part. Without this script, the
// browser reloads the page every two seconds.
const PAUSE_MILLISECONDS = 700;

async function refreshLivePart() {
  const livePart = document.querySelector("[data-live]");
  if (!livePart) return;
  let newLivePart;
  try {
    const response = await fetch(location.href, { cache: "no-store" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    newLivePart = page.querySelector("[data-live]");
  } catch {
    const message = document.createElement("p");
    message.className = "warning";
    message.setAttribute("role", "alert");
    message.textContent = "The workbench no longer answers. Unfinished work is rolled back.";
    livePart.replaceWith(message);
    return;
  }
  if (!newLivePart) {
    location.reload();
    return;
  }
  livePart.replaceWith(document.importNode(newLivePart, true));
  setTimeout(refreshLivePart, PAUSE_MILLISECONDS);
}

setTimeout(refreshLivePart, PAUSE_MILLISECONDS);

// Lets the user show only the columns whose name, type or role contains a text, and set the role
// of all columns shown.
function filterColumns(controls) {
  const filter = controls.querySelector("#filter");
  const role = controls.querySelector("#bulk");
  const status = controls.querySelector("#shown");
  const rows = [...document.querySelectorAll("form[action=columns] .thing")];
  const selectOf = (row) => row.querySelector("select");
  const applyFilter = () => {
    const text = filter.value.trim().toLowerCase();
    for (const row of rows) {
      const rowText = row.querySelector(".about").textContent + selectOf(row).selectedOptions[0].text;
      row.hidden = !rowText.toLowerCase().includes(text);
    }
    status.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} columns shown.`;
  };
  controls.querySelector("#assign").addEventListener("click", () => {
    for (const row of rows.filter((row) => !row.hidden)) {
      const options = [...selectOf(row).options].map((option) => option.value);
      if (options.includes(role.value)) selectOf(row).value = role.value;
    }
  });
  filter.addEventListener("input", applyFilter);
  controls.hidden = false;
  applyFilter();
}

document.querySelectorAll("[data-bulk]").forEach(filterColumns);
