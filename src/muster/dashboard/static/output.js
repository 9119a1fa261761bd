"use strict";
// Follows the output of a job. The page keeps the newest lines, whatever comes.

const output = document.getElementById("output");
const lines = document.getElementById("output-lines");
const now = document.getElementById("output-now");
const cut = document.getElementById("output-cut");
const empty = document.getElementById("output-empty");
const told = document.getElementById("output-state");
const atEnd = document.getElementById("output-follow");
const MOST_LINES = 5000;
let leftOut = 0;
let feed = null;
let ended = false;
let deleted = ""; // the UID of the job, once it is deleted

function drawLine([worker, isError, text], many) {
  const row = document.createElement("div");
  if (isError) row.className = "err";
  if (many || worker === "muster") {
    const mark = document.createElement("b");
    mark.textContent = `[${worker}] `;
    mark.className = /^\d+$/.test(worker) ? `r${Number(worker) % 7}` : "";
    row.append(mark);
  }
  row.append(text || "\u200b");
  return row;
}

function drawAll(drawn) {
  const many = output.dataset.many === "1";
  const fragment = document.createDocumentFragment();
  for (const line of drawn) fragment.append(drawLine(line, many));
  return fragment;
}

function showLines(event) {
  const batch = JSON.parse(event.data);
  for (const [worker] of [...batch.lines, ...batch.unfinished]) {
    if (output.dataset.first === undefined) output.dataset.first = worker;
    else if (worker !== output.dataset.first) output.dataset.many = "1";
  }
  leftOut += batch.left_out;
  lines.append(drawAll(batch.lines));
  now.replaceChildren(drawAll(batch.unfinished));
  while (lines.childElementCount > MOST_LINES) {
    lines.firstElementChild.remove();
    leftOut += 1;
  }
  empty.hidden = lines.childElementCount + now.childElementCount > 0;
  cut.hidden = leftOut === 0;
  cut.textContent = `At least ${leftOut.toLocaleString()} earlier lines are left out here; the download has them.`;
  if (atEnd.checked) output.scrollTop = output.scrollHeight;
}

function begin() {
  lines.replaceChildren();
  now.replaceChildren();
  leftOut = 0;
  cut.hidden = true;
  empty.hidden = false;
}

function followOutput() {
  if (feed || ended || document.hidden || !output.dataset.stream) return;
  if (!window.EventSource) {
    document.getElementById("output-unfollowed").hidden = false;
    return;
  }
  const stream = new URL(output.dataset.stream, location.href);
  if (deleted) stream.searchParams.set("deleted", deleted);
  feed = new EventSource(stream);
  feed.addEventListener("begin", begin);
  feed.addEventListener("lines", showLines);
  feed.addEventListener("state", (event) => {
    const state = JSON.parse(event.data);
    told.textContent = state.reason ? `${state.word}: ${state.reason}` : state.word;
  });
  feed.addEventListener("again", () => {
    leaveOutput();
    followOutput();
  });
  feed.addEventListener("end", (event) => {
    ended = true;
    told.textContent = JSON.parse(event.data).text;
    leaveOutput();
  });
  feed.addEventListener("deleted", (event) => {
    const about = JSON.parse(event.data);
    deleted = about.uid;
    told.textContent = about.text;
  });
  feed.addEventListener("replaced", (event) => {
    ended = true;
    const link = document.createElement("a");
    link.href = location.href;
    link.textContent = "show its output";
    told.replaceChildren(`${JSON.parse(event.data).text}: `, link);
    leaveOutput();
  });
  feed.onerror = () => {
    if (ended) return;
    told.textContent = "The server does not answer; the page goes on by itself once it does.";
    if (feed && feed.readyState === EventSource.CLOSED) {
      feed = null;
      window.setTimeout(followOutputIfSignedIn, 3000);
    }
  };
}

async function followOutputIfSignedIn() {
  if (await endIfSignedOut()) ended = true;
  followOutput();
}

function leaveOutput() {
  if (feed) feed.close();
  feed = null;
}

output.addEventListener("scroll", () => {
  const below = output.scrollHeight - output.scrollTop - output.clientHeight;
  if (below > 80) atEnd.checked = false;
  else if (below < 4) atEnd.checked = true;
});
atEnd.addEventListener("change", () => {
  if (atEnd.checked) output.scrollTop = output.scrollHeight;
});
document.addEventListener("visibilitychange", () => (document.hidden ? leaveOutput() : followOutput()));
window.addEventListener("pagehide", leaveOutput);
window.addEventListener("pageshow", followOutput);
followOutput();
