"use strict";
// Shows the progress of a task, and filters the columns of a wide table.
// Looks again at this page while its task runs, and shows what is live of it. Without this script
// the page is loaded again every two seconds.
const PAUSE = 700;

async function look() {
  const shown = document.querySelector("[data-live]");
  if (!shown) return;
  let live;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    live = page.querySelector("[data-live]");
  } catch {
    const gone = document.createElement("p");
    gone.className = "warning";
    gone.setAttribute("role", "alert");
    gone.textContent = "The workbench does not answer any more: what was not finished is rolled back.";
    shown.replaceWith(gone);
    return;
  }
  if (!live) {
    location.reload();
    return;
  }
  shown.replaceWith(document.importNode(live, true));
  setTimeout(look, PAUSE);
}

setTimeout(look, PAUSE);

// Shows the columns whose name, type or role contains a text, and gives all of them a role.
function filterColumns(controls) {
  const filter = controls.querySelector("#filter");
  const role = controls.querySelector("#bulk");
  const status = controls.querySelector("#shown");
  const rows = [...document.querySelectorAll("form[action=columns] .thing")];
  const roleOf = (row) => row.querySelector("select");
  const show = () => {
    const text = filter.value.trim().toLowerCase();
    for (const row of rows) {
      const words = row.querySelector(".about").textContent + roleOf(row).selectedOptions[0].text;
      row.hidden = !words.toLowerCase().includes(text);
    }
    status.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} columns shown.`;
  };
  controls.querySelector("#assign").addEventListener("click", () => {
    for (const row of rows.filter((row) => !row.hidden)) {
      const options = [...roleOf(row).options].map((option) => option.value);
      if (options.includes(role.value)) roleOf(row).value = role.value;
    }
  });
  filter.addEventListener("input", show);
  controls.hidden = false;
  show();
}

document.querySelectorAll("[data-bulk]").forEach(filterColumns);
