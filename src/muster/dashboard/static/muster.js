"use strict";
// What an open page does by itself: it follows changes, keeps ages up to date, and says when the server is away.

const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
const SILENT_MS = 15000; // the server says every 5 s that it is there
let stream = null;
let heard = Date.now();
let skew = 0;
let saysSilence = false;

function say(text, isSilence = false) {
  saysSilence = isSilence;
  trouble.textContent = text;
  trouble.hidden = !text;
}

function hear() {
  heard = Date.now();
  say("");
}

function follow() {
  if (stream || !main.dataset.live || document.hidden) return;
  if (!window.EventSource) {
    say("This browser cannot follow changes: reload the page to see them.");
    return;
  }
  stream = new EventSource("/ui/live?at=" + encodeURIComponent(main.dataset.live));
  stream.addEventListener("alive", () => {
    heard = Date.now();
    if (saysSilence) say(""); // what else is the matter holds until the next change
  });
  stream.addEventListener("trouble", (event) => {
    heard = Date.now();
    say(JSON.parse(event.data).text);
  });
  stream.addEventListener("whole", (event) => {
    hear();
    Idiomorph.morph(main, JSON.parse(event.data).html, {morphStyle: "innerHTML", ignoreActiveValue: true});
    freshen();
  });
  stream.addEventListener("pieces", (event) => {
    hear();
    for (const [id, html] of Object.entries(JSON.parse(event.data).html)) {
      const element = document.getElementById(id);
      if (element) Idiomorph.morph(element, html, {morphStyle: "outerHTML", ignoreActiveValue: true});
    }
    freshen();
  });
  stream.onerror = () => {
    // A refused stream (a session that ended, a page that is gone) is not opened again by the browser.
    if (stream && stream.readyState === EventSource.CLOSED) {
      stream = null;
      window.setTimeout(follow, 2000);
    }
    tellSilence();
  };
}

function leave() {
  if (stream) stream.close();
  stream = null;
}

function tellSilence() {
  if (!main.dataset.live || document.hidden) return;
  const seconds = Math.round((Date.now() - heard) / 1000);
  const at = new Date(heard).toLocaleTimeString();
  const lost = !stream || stream.readyState !== EventSource.OPEN;
  if (lost || Date.now() - heard > SILENT_MS) {
    say(`The server does not answer. What you see is of ${at}, ${seconds} s ago; the page goes on by itself once it does.`, true);
  }
}

// The same words as the server's: 45s, 12m, 3h, 2d.
function ageOf(seconds) {
  if (seconds < 120) return `${Math.max(0, seconds)}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

function freshen() {
  const now = Date.now() + skew;
  for (const age of document.querySelectorAll("time.age")) {
    const text = ageOf(Math.floor((now - Date.parse(age.dateTime)) / 1000));
    if (age.textContent !== text) age.textContent = text;
    if (!age.title) age.title = new Date(age.dateTime).toLocaleString();
  }
  for (const moment of document.querySelectorAll("time.moment")) {
    const text = new Date(moment.dateTime).toLocaleString();
    if (moment.textContent !== text) moment.textContent = text;
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) leave();
  else {
    heard = Date.now();
    follow();
    freshen();
  }
});
// A form of filters acts at once; without a script its button does.
document.addEventListener("change", (event) => {
  const form = event.target.closest("form.filters");
  if (form) form.requestSubmit();
});
window.setInterval(() => {
  if (!document.hidden) {
    freshen();
    if (main.dataset.live && Date.now() - heard > SILENT_MS) tellSilence();
  }
}, 1000);
window.addEventListener("pagehide", leave);
window.addEventListener("pageshow", follow);
freshen();
