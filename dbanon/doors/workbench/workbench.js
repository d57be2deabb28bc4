"use strict";
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
