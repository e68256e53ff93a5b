// The page's script: it keeps what is shown current, and sends forms without leaving the page. What a program says becomes text nodes, never
// HTML; the HTML of our own templates passes the one policy below.
"use strict";
(() => {
const body = document.body, $ = (s, in_ = document) => in_.querySelector(s), all = (s, in_ = document) => [...in_.querySelectorAll(s)];
const own = window.trustedTypes ? trustedTypes.createPolicy("sandboxmcp", {createHTML: s => s}) : {createHTML: s => s};
const parsed = html => new DOMParser().parseFromString(own.createHTML(html), "text/html").body;
const store = {
  get(k) { try { return localStorage.getItem(k); } catch { return null; } },
  set(k, v) { try { v === null ? localStorage.removeItem(k) : localStorage.setItem(k, v); } catch {} },
};
const el = (name, props = {}, ...kids) => { const e = Object.assign(document.createElement(name), props); e.append(...kids); return e; };
const say = text => { $("#status").textContent = text; };

// The gate: a code comes behind the #, which browsers send to no server.
if (!body.dataset.section) {
  const form = $("#by_code"), code = location.hash.slice(1);
  if (form && code) {
    history.replaceState(null, "", location.pathname);
    $("#code").value = code;
    form.requestSubmit();
  } else if (form && !location.search && store.get("room")?.startsWith(location.pathname + "~")) {
    location.replace(store.get("room"));
  } else if (location.search) store.set("room", null);
  return;
}
store.set("room", location.pathname.slice(0, location.pathname.lastIndexOf("/") + 1));
$("#leave")?.addEventListener("submit", () => store.set("room", null));
const out = () => { location.href = "../?out"; };

// morph makes one tree like another one, and leaves alone what is as it should be: what has the focus keeps it.
function morph(a, b) {
  if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName || (a.id || b.id) && a.id !== b.id) { a.replaceWith(b.cloneNode(true)); return; }
  if (a.nodeType !== 1) { if (a.nodeValue !== b.nodeValue) a.nodeValue = b.nodeValue; return; }
  for (const {name, value} of b.attributes) if (a.getAttribute(name) !== value) a.setAttribute(name, value);
  for (const {name} of [...a.attributes]) if (!b.hasAttribute(name) && !(name === "open" && a.nodeName === "DETAILS")) a.removeAttribute(name);
  if (a.dataset.fetch) return; // filled by itself
  children(a, b);
}
function children(a, b) {
  const byId = new Map([...a.children].filter(c => c.id).map(c => [c.id, c]));
  let at = a.firstChild;
  for (const want of [...b.childNodes]) {
    const known = want.id && byId.get(want.id);
    if (known && known !== at) a.insertBefore(known, at), at = known;
    if (!at || want.id && !known) { a.insertBefore(want.cloneNode(true), at); continue; }
    const next = at.nextSibling;
    if (at.id && at.id !== want.id && [...b.children].some(c => c.id === at.id)) { a.insertBefore(want.cloneNode(true), at); continue; }
    morph(at, want);
    at = next;
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

// Parts that take a while, or are of one question, are fetched by themselves.
async function fill(div) {
  if (div.dataset.filled === div.dataset.fetch) return;
  div.dataset.filled = div.dataset.fetch;
  try {
    const r = await fetch(div.dataset.fetch);
    if (r.status === 401) return out();
    if (r.ok) div.replaceChildren(...parsed(await r.text()).childNodes);
    else if (!div.textContent.trim()) div.replaceChildren(el("p", {className: "dim", textContent: await r.text()}));
  } catch { delete div.dataset.filled; }
}
const fillAll = () => all("[data-fetch]").forEach(fill);

// What is asked: a sound, the title, and time to look before an answer counts.
let changed = 0, first = null, asked = 0;
const title = document.title;
function beep() {
  if (store.get("sound") !== "on") return;
  try {
    const c = new AudioContext(), o = c.createOscillator(), g = c.createGain();
    o.frequency.value = 660; g.gain.setValueAtTime(.15, c.currentTime); g.gain.exponentialRampToValueAtTime(.001, c.currentTime + .4);
    o.connect(g).connect(c.destination); o.start(); o.stop(c.currentTime + .4); o.onended = () => c.close();
  } catch {}
}
function questions(m) {
  const here = $("#asking");
  if (here) {
    children(here, parsed(m.html));
    fillAll();
    if (m.first !== first && first !== null) changed = performance.now();
  } 
  const badge = $("#badge");
  badge.hidden = !m.n; badge.textContent = m.n || "";
  document.title = m.n ? `(${m.n}) ${title}` : title;
  if (m.first && first !== null && m.n > asked) {
    beep();
    const what = parsed(m.html).querySelector(".ask:last-of-type h3")?.textContent.trim() || "";
    $("#alert").textContent = `${m.n} ${body.dataset.asks}: ${what}`;
  }
  first = m.first; asked = m.n;
}

let live, leaving = false;
function connect() {
  leaving = false;
  live = new EventSource("live");
  live.addEventListener("asking", e => { say(""); questions(JSON.parse(e.data)); });
  live.addEventListener("running", e => { const here = $("#running"); if (here) children(here, parsed(JSON.parse(e.data).html)); });
  live.addEventListener("gone", e => say(JSON.parse(e.data).why));
  live.addEventListener("open", () => say(""));
  live.addEventListener("error", async e => {
    if (leaving) return;
    say(body.dataset.lost);
    if (e.target.readyState !== EventSource.CLOSED) return;
    try { if ((await fetch("live", {method: "GET", headers: {Accept: "text/event-stream"}, signal: AbortSignal.timeout(500)})).status === 401) return out(); } catch {}
    setTimeout(() => location.reload(), 5000);
  });
}
connect();
addEventListener("pagehide", () => { leaving = true; live.close(); });
addEventListener("pageshow", e => { if (e.persisted) $("[data-output]") ? location.reload() : connect(); }); // as "back" brings it

setInterval(() => all("[data-left]").forEach(t => {
  const s = Math.max(0, Math.round((new Date(t.dataset.left) - Date.now()) / 1000));
  t.textContent = s >= 60 ? `${Math.floor(s / 60)}m${s % 60}s` : `${s}s`;
  t.classList.toggle("soon", s < 60);
}), 1000);

// Forms that change something are sent by us, and the page stays where it is.
document.addEventListener("submit", async e => {
  const form = e.target.closest("form[data-quiet]");
  if (!form) return;
  e.preventDefault();
  if (form.closest("#asking") && performance.now() - changed < 700) return say(body.dataset.wait);
  if (form.dataset.sure && !confirm(form.dataset.sure)) return;
  const data = new URLSearchParams(new FormData(form, e.submitter));
  if (e.submitter) e.submitter.disabled = true;
  try {
    const r = await fetch(form.getAttribute("action"), {method: "POST", body: data});
    if (r.status === 401) return out();
    say(r.ok ? "" : await r.text());
  } catch (err) { say(String(err.message)); }
  if (e.submitter) e.submitter.disabled = false;
});

// A pane shows what one run says. Its lines are elements: a carriage return begins the last one anew, and old ones go.
const maxLines = 2000, maxLine = 4096, maxText = 256 << 10;
class Pane {
  constructor(root) {
    this.pane = $(".pane", root); this.happens = $(".happens", root);
    this.pane.replaceChildren(); this.happens?.replaceChildren();
    this.line();
  }
  line() {
    this.total = (this.total || 0) + (this.size || 0);
    if (this.last) this.last.size = this.size;
    this.last = el("div", {className: "l"}); this.size = 0; this.pane.append(this.last);
    while (this.pane.childElementCount > maxLines || this.total > maxText && this.pane.childElementCount > 2) {
      this.total -= this.pane.firstChild.size || 0;
      this.pane.firstChild.remove();
    }
  }
  text(spans, err) {
    for (const {c, t} of spans || []) for (const [i, part] of t.split("\n").entries()) {
      if (i) this.line();
      for (const [j, piece] of part.split("\r").entries()) {
        if (j) { this.last.replaceChildren(); this.size = 0; }
        for (let rest = piece; rest; ) {
          if (this.size >= maxLine) { this.line(); this.last.classList.add("goes-on"); }
          const now = rest.slice(0, maxLine - this.size);
          rest = rest.slice(now.length); this.size += now.length;
          this.last.append(c || err ? el("span", {className: (c || "") + (err ? " err" : ""), textContent: now}) : now);
        }
      }
    }
  }
  block(...kids) {
    if (this.last.hasChildNodes()) this.line();
    this.last.append(...kids); this.line();
  }
  said(m) {
    if (!this.waits) { // one look at the layout for all that comes at once
      this.waits = true;
      const low = this.pane.scrollHeight - this.pane.scrollTop - this.pane.clientHeight < 40;
      requestAnimationFrame(() => { this.waits = false; if (low) this.pane.scrollTop = this.pane.scrollHeight; });
    }
    if (m.spans) this.text(m.spans, m.stream === "err");
    if (m.picture) this.block(el("img", {src: m.picture, alt: m.value || ""}));
    else if (m.value) this.block(el("span", {className: "value", textContent: m.value}));
    if (m.event) {
      const one = el("li", {className: m.bad ? "bad" : ""}, el("time", {textContent: m.time || ""}), " " + m.event);
      if (this.happens) { this.happens.append(one); if (this.happens.childElementCount > 500) this.happens.firstChild.remove(); }
    }
  }
}
function follow(run, pane, over) {
  const s = new EventSource("output?id=" + encodeURIComponent(run));
  s.addEventListener("said", e => pane.said(JSON.parse(e.data)));
  s.addEventListener("over", e => { s.close(); over?.(JSON.parse(e.data).why); });
  s.addEventListener("error", () => { if (s.readyState === EventSource.CLOSED) over?.(body.dataset.over); });
  addEventListener("pagehide", () => s.close());
  return s;
}
let watched = null;
document.addEventListener("click", e => {
  const a = e.target.closest("[data-watch]");
  if (!a || e.ctrlKey || e.metaKey || e.shiftKey || !$("#watch")) return;
  e.preventDefault();
  watched?.close();
  const box = $("#watch");
  box.hidden = false; $("#watched").textContent = a.dataset.watch;
  watched = follow(a.dataset.watch, new Pane(box), why => box.append(el("p", {className: "dim over", textContent: why || body.dataset.over})));
  all(".over", box).forEach(p => p.remove());
  $(".pane", box).focus();
});
$("#unwatch")?.addEventListener("click", () => { watched?.close(); $("#watch").hidden = true; });
const here = $("[data-output]");
if (here) follow(here.dataset.output, new Pane(here), () => { say(body.dataset.over); setTimeout(() => location.reload(), 600); });

// The terminal of a session.
const terminal = $("#terminal");
if (terminal) {
  const pane = new Pane(terminal), form = $("#cell"), typed = $("#typed"), stop = $("#stop"), past = [];
  let at = 0, run = null;
  stop.addEventListener("click", () => run && fetch("interrupt", {method: "POST", body: new URLSearchParams({token: body.dataset.token, id: run, how: "interrupt"})}));
  form.addEventListener("submit", async e => {
    e.preventDefault();
    const code = typed.value;
    if (!code.trim() || run) return;
    past.push(code); at = past.length; typed.value = "";
    pane.block(el("span", {className: "typed", textContent: code}));
    try {
      const r = await fetch("cell", {method: "POST", body: new URLSearchParams({token: body.dataset.token, id: terminal.dataset.session, code})});
      if (r.status === 401) return out();
      if (!r.ok) return pane.block(el("span", {className: "err", textContent: await r.text()}));
      run = (await r.json()).run; stop.hidden = false;
      follow(run, pane, () => { run = null; stop.hidden = true; typed.focus(); });
    } catch (err) { pane.block(el("span", {className: "err", textContent: err.message})); }
  });
  typed.addEventListener("keydown", e => {
    const edge = e.key === "ArrowUp" ? !typed.value.slice(0, typed.selectionStart).includes("\n") : !typed.value.slice(typed.selectionEnd).includes("\n");
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); form.requestSubmit(); }
    else if (e.key === "ArrowUp" && edge && at > 0) { e.preventDefault(); typed.value = past[--at]; }
    else if (e.key === "ArrowDown" && edge && at < past.length) { e.preventDefault(); typed.value = past[++at] || ""; }
  });
}

// Keys.
const help = $("#help"), on = $("#keys_on"), sound = $("#sound");
on.checked = store.get("keys") !== "off";
on.addEventListener("change", () => store.set("keys", on.checked ? null : "off"));
help.addEventListener("close", () => { if (help.contains(document.activeElement)) document.activeElement.blur(); }); // or keys would go to its fields
$("#keys").addEventListener("click", () => help.showModal());
const heard = () => sound.setAttribute("aria-pressed", store.get("sound") === "on");
sound.addEventListener("click", () => { store.set("sound", store.get("sound") === "on" ? null : "on"); heard(); beep(); });
heard();
function step(by) {
  const list = all(".ask .yes:first-of-type, .live h3 a, #rows tbody a, .raw summary");
  const i = list.indexOf(document.activeElement);
  list[Math.min(Math.max(i + by, 0), list.length - 1)]?.focus();
}
document.addEventListener("keydown", e => {
  if (!on.checked || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select, dialog[open]")) return;
  const sections = all("header.top nav a");
  const f = {
    a: () => $(".ask .yes")?.focus(), d: () => $(".ask .no")?.focus(), j: () => step(1), k: () => step(-1),
    "/": () => $("#f_text") ? $("#f_text").focus() : location.href = "ran", "?": () => help.showModal(),
    n: () => $("#older")?.click(), p: () => $("#newest")?.click(),
    1: () => sections[0].click(), 2: () => sections[1].click(), 3: () => sections[2].click(), 4: () => sections[3].click(), 5: () => sections[4].click(),
  }[e.key];
  if (f) { e.preventDefault(); f(); }
});
$("#search")?.addEventListener("submit", () => all("#search input, #search select").forEach(i => { if (!i.value) i.disabled = true; }));

$("#verify")?.addEventListener("click", async () => {
  const list = $("#verdict"), words = list.dataset;
  list.replaceChildren();
  const tell = (text, bad, code) => list.append(el("li", {className: bad ? "bad" : "good"}, text, ...(code ? [" ", el("code", {textContent: code})] : [])));
  try {
    const {check} = await import("./" + body.dataset.verify);
    const r = await fetch("evidence?id=" + encodeURIComponent($("#proof").dataset.run));
    if (r.status === 401) return out();
    if (!r.ok) return tell(words.fails + " " + await r.text(), true);
    await check(await r.json(), $("#pem").value.trim(), tell, words);
  } catch (err) { tell(words.fails + " " + err.message, true); }
});
fillAll();
})();
