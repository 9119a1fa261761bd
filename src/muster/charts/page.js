"use strict";
const tip = document.getElementById("tip");
const WIDTH = 1000, STEPS = [1, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2419200, 7862400, 31449600];

function span(seconds) {
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const number = Math.floor(rest / size);
    rest -= number * size;
    if (number || parts.length) parts.push(number ? number + unit : "");
  }
  return parts.slice(0, 2).join("") || "0s";
}

function show(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = tip.style.top = "0";
  tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - tip.offsetWidth - 4)) + "px";
  tip.style.top = Math.max(4, Math.min(y + 16, innerHeight - tip.offsetHeight - 4)) + "px";
}

function describe(bar) {
  return bar.dataset.n + "\n" + span(bar.dataset.s) + " – " + span(bar.dataset.e) + " (" + span(bar.dataset.e - bar.dataset.s) + ")";
}

for (const gantt of document.querySelectorAll(".gantt")) {
  const seconds = Number(gantt.dataset.seconds), svg = gantt.querySelector(".bars .shapes"), times = gantt.querySelector(".times");
  const height = svg.viewBox.baseVal.height, bars = [...svg.querySelectorAll("rect")];
  let left = 0, wide = WIDTH, current = -1;

  function zoom(factor, center) {
    const next = Math.max(WIDTH / 5000, Math.min(WIDTH, wide * factor));
    left = Math.max(0, Math.min(WIDTH - next, center - (center - left) * next / wide));
    wide = next;
    svg.setAttribute("viewBox", left + " 0 " + wide + " " + height);
    const from = left / WIDTH * seconds, shown = wide / WIDTH * seconds;
    const step = STEPS.find((one) => shown / one <= 8) || STEPS[STEPS.length - 1];
    times.replaceChildren();
    for (let at = Math.ceil(from / step) * step, n = 0; at <= from + shown; at += step, n++) {
      const text = document.createElementNS("http://www.w3.org/2000/svg", "text"), share = (at - from) / shown;
      text.setAttribute("x", share * 100 + "%");
      text.setAttribute("y", 14);
      text.setAttribute("class", n % 2 ? "tick minor" : "tick");
      text.setAttribute("text-anchor", share < 0.04 ? "start" : share > 0.96 ? "end" : "middle");
      text.textContent = span(at);
      times.append(text);
    }
  }

  function place(event) {
    const box = svg.getBoundingClientRect();
    return left + (event.clientX - box.left) / box.width * wide;
  }

  function select(number) {
    if (!bars.length) return;
    if (current >= 0) bars[current].classList.remove("on");
    current = (number + bars.length) % bars.length;
    const bar = bars[current], x = Number(bar.getAttribute("x")), width = Number(bar.getAttribute("width"));
    bar.classList.add("on");
    if (x < left || x + width > left + wide) {
      left = Math.max(0, Math.min(WIDTH - wide, x - wide / 10));
      zoom(1, left);
    }
    bar.scrollIntoView({ block: "nearest" });
    const box = bar.getBoundingClientRect();
    show(describe(bar), box.left, box.bottom);
  }

  svg.addEventListener("pointermove", (event) => {
    if (event.target.dataset && event.target.dataset.n !== undefined) show(describe(event.target), event.clientX, event.clientY);
    else tip.hidden = true;
    if (event.buttons === 1 && event.pointerType === "mouse") {
      left = Math.max(0, Math.min(WIDTH - wide, left - event.movementX / svg.clientWidth * wide));
      zoom(1, left);
    }
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 300), place(event));
  }, { passive: false });
  svg.addEventListener("dblclick", (event) => zoom(event.shiftKey ? 2 : 0.5, place(event)));
  gantt.addEventListener("blur", () => { tip.hidden = true; });
  gantt.addEventListener("keydown", (event) => {
    const middle = left + wide / 2, move = wide / 5;
    const actions = {
      "+": () => zoom(0.5, middle), "=": () => zoom(0.5, middle), "-": () => zoom(2, middle), "0": () => zoom(WIDTH / wide, 0),
      "a": () => { left = Math.max(0, left - move); zoom(1, left); },
      "d": () => { left = Math.min(WIDTH - wide, left + move); zoom(1, left); },
      "ArrowRight": () => select(current + 1), "ArrowLeft": () => select(current < 0 ? -1 : current - 1),
      "Escape": () => { tip.hidden = true; },
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
}
