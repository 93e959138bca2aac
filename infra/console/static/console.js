"use strict";
// Loads #live again when the stream names another version than the page has. Open rows and the focus stay.

const live = () => document.getElementById("live");
const connection = document.getElementById("connection");
let newest = "";
let loading = false;
let open = [];
let focused = "";

function refresh() {
  if (loading || !live() || !newest || live().dataset.version === newest) return;
  loading = true;
  htmx.ajax("GET", location.href, { target: "#live", select: "#live", swap: "outerHTML" })
    .finally(() => { loading = false; setTimeout(refresh, 1000); });
}

document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status >= 400) return;
  open = [...document.querySelectorAll("details[open]")].map((row) => row.id);
  focused = document.activeElement?.closest?.("details")?.id ?? "";
});
document.addEventListener("htmx:afterSwap", () => {
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.querySelector("summary")?.focus();
});

if (live()) {
  const stream = new EventSource(live().dataset.stream);
  stream.addEventListener("version", (event) => { newest = event.data; refresh(); });
  stream.addEventListener("open", () => { connection.hidden = true; });
  stream.addEventListener("error", () => { connection.hidden = false; });
}
