"use strict";
// Loads #live again when the stream names another version than the page has. Open rows and the focus stay.

const notice = document.getElementById("notice");
const live = () => document.getElementById("live");
let stream = null;
let newest = "";
let refused = ""; // the version with which the page could not be loaded
let loading = false;
let open = [];
let focused = {}; // a row or a button by its id, or a link by its address

function refresh() {
  if (loading || newest === refused || live().dataset.version === newest) return;
  loading = true;
  htmx.ajax("GET", location.href, { target: "#live", select: "#live", swap: "outerHTML" })
    .finally(() => { loading = false; setTimeout(refresh, 1000); });
}

function say(text) {
  notice.textContent = text;
  notice.hidden = !text;
}

// A browser opens six connections to a host, so a hidden page has none.
function connect() {
  stream?.close();
  if (document.hidden) return;
  stream = new EventSource(live().dataset.stream);
  stream.addEventListener("version", (event) => { newest = event.data; refresh(); });
  stream.addEventListener("open", () => say(""));
  stream.addEventListener("error", () => say("The console has ended or cannot be reached. This page shows its last state."));
}

document.addEventListener("htmx:responseError", (event) => {
  refused = newest;
  say(event.detail.xhr.status === 404
    ? "This object does not exist now. This page shows its last state."
    : "This page could not be loaded again. It shows its last state.");
});
document.addEventListener("htmx:beforeSwap", () => {
  open = [...document.querySelectorAll("details[open]")].map((row) => row.id);
  const active = live().contains(document.activeElement) ? document.activeElement : null;
  focused = { row: active?.matches("summary") && active.parentElement.id, link: active?.href, id: active?.id };
});
document.addEventListener("htmx:afterSwap", () => {
  say("");
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  const row = focused.row && document.getElementById(focused.row)?.querySelector("summary");
  const link = focused.link && [...live().querySelectorAll("a")].find((each) => each.href === focused.link);
  const button = focused.id && document.getElementById(focused.id);
  (row || link || button)?.focus({ preventScroll: true });
});

if (live()) {
  document.addEventListener("visibilitychange", connect);
  connect();
}

// A preview takes half a minute: the stream brings its progress line by line, and in the end its result.
const preview = document.getElementById("preview");
preview?.addEventListener("click", () => {
  const result = document.getElementById("result");
  const steps = document.createElement("ol");
  steps.className = "timeline";
  result.replaceChildren(steps);
  result.hidden = false;
  preview.disabled = true;
  const progress = new EventSource(preview.dataset.stream + "?" + new URLSearchParams(new FormData(preview.form)));
  const end = () => { progress.close(); preview.disabled = false; };
  progress.addEventListener("line", (event) => {
    const line = document.createElement("li");
    line.textContent = JSON.parse(event.data);
    steps.append(line);
  });
  progress.addEventListener("result", (event) => { end(); result.innerHTML = JSON.parse(event.data); });
  progress.addEventListener("error", () => { end(); say("The preview has ended without a result: the console cannot be reached."); });
});
