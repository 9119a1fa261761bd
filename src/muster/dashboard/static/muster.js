"use strict";
// What an open page does by itself: it follows changes, keeps ages up to date, and says when the server is away.

const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
const troubleText = document.getElementById("trouble-text"); // a screen reader says it when it changes, and not its age
const troubleAge = document.getElementById("trouble-age");
const CLOCK_MS = 60000; // clocks that differ by less are right
const SILENT_MS = 15000; // the server says every 5 s that it is there
// What the viewer wrote and opened stays as it is when the page changes.
const MORPHING = {
  ignoreActiveValue: true,
  callbacks: {beforeAttributeUpdated: (name, element) => name !== "open" || element.localName !== "details"},
};
let stream = null;
let heard = Date.now();
// How far the clock of the server is ahead of this browser's, which may be wrong.
const skew = Date.parse(main.dataset.now) - Date.now() || 0;
let saysSilence = false;
const late = document.getElementById("late"); // no screen reader says it: it changes each second
let lateSince = 0; // when the page was rendered, while newer changes wait; 0 if none does

function say(text, age = "") {
  saysSilence = age !== "";
  trouble.classList.toggle("is-empty", !text); // a screen reader follows only what was there before
  if (troubleText.textContent !== text) troubleText.textContent = text;
  troubleAge.textContent = age;
}

function hear() {
  heard = Date.now();
  say("");
  sayLate(0);
}

function sayLate(since) {
  lateSince = since;
  late.hidden = !since;
  if (since) late.textContent = `Much changes now. This page is ${describeAge(Math.round((Date.now() - since) / 1000))} old.`;
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
  stream.addEventListener("again", () => {
    leave();
    follow();
  });
  stream.addEventListener("trouble", (event) => {
    heard = Date.now();
    say(JSON.parse(event.data).text);
  });
  stream.addEventListener("late", (event) => {
    heard = Date.now();
    const seconds = JSON.parse(event.data).seconds;
    sayLate(seconds && Date.now() - seconds * 1000);
  });
  stream.addEventListener("whole", (event) => {
    hear();
    Idiomorph.morph(main, JSON.parse(event.data).html, {...MORPHING, morphStyle: "innerHTML"});
    freshen();
  });
  stream.addEventListener("pieces", (event) => {
    hear();
    for (const [id, html] of Object.entries(JSON.parse(event.data).html)) {
      const element = document.getElementById(id);
      if (element) Idiomorph.morph(element, html, {...MORPHING, morphStyle: "outerHTML"});
    }
    freshen();
  });
  stream.onerror = () => {
    // A refused stream (a session that ended, a page that is gone) is not opened again by the browser.
    if (stream && stream.readyState === EventSource.CLOSED) {
      stream = null;
      window.setTimeout(followIfSignedIn, 2000);
    }
    tellSilence();
  };
}

// A stream that is refused does not say why, and a page does.
async function endIfSignedOut() {
  const page = await fetch(location.href, {redirect: "manual"}).catch(() => null); // null: the server is away
  if (!page || page.status !== 401) return false;
  delete main.dataset.live;
  main.replaceChildren();
  say("You are signed out. Reload the page to sign in again.");
  return true;
}

async function followIfSignedIn() {
  if (!(await endIfSignedOut())) follow();
}

function leave() {
  if (stream) stream.close();
  stream = null;
  sayLate(0);
}

function tellSilence() {
  if (!main.dataset.live || document.hidden) return;
  const seconds = Math.round((Date.now() - heard) / 1000);
  const lost = !stream || stream.readyState !== EventSource.OPEN;
  if (lost || Date.now() - heard > SILENT_MS) {
    say("The server does not answer. The page goes on by itself once it does.", `What you see is ${describeAge(seconds)} old.`);
  }
}

// The same words as the server's (`format_duration`): 45s, 5m3s, 12m, 3h20m, 2d.
function describeAge(seconds) {
  seconds = Math.max(0, seconds);
  const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
  const join = (whole, rest, unit) => whole + (rest ? rest + unit : "");
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return join(`${minutes}m`, seconds % 60, "s");
  if (minutes < 180) return `${minutes}m`;
  if (hours < 8) return join(`${hours}h`, minutes % 60, "m");
  return hours < 48 ? `${hours}h` : `${days}d`;
}

function freshen() {
  const now = Date.now() + skew;
  for (const time of document.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    const title = at.toLocaleString(undefined, {dateStyle: "medium", timeStyle: "long"});
    if (time.title !== title) time.title = title;
    const ways = {age: 1, until: -1};
    const text = describeAge(Math.floor(((now - at) * ways[time.className]) / 1000));
    if (time.className in ways && time.textContent !== text) time.textContent = text;
  }
}

function sayClock() {
  const clock = document.getElementById("clock");
  clock.hidden = Math.abs(skew) < CLOCK_MS;
  const by = describeAge(Math.round(Math.abs(skew) / 1000));
  const way = skew > 0 ? "behind" : "ahead of";
  clock.textContent = `The clock of this browser is ${by} ${way} the server's. Ages here are by the server's clock.`;
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
    if (lateSince) sayLate(lateSince);
    if (main.dataset.live && Date.now() - heard > SILENT_MS) tellSilence();
  }
}, 1000);
window.addEventListener("pagehide", leave);
window.addEventListener("pageshow", follow);
freshen();
sayClock();
// The sentence above the page says what was done. Screen readers read it out.
document.getElementById("said")?.focus({preventScroll: true});
