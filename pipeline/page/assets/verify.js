// check checks a run's receipt and that its row is in the log, with the browser's own cryptography: DSSE (Ed25519), RFC 6962 and C2SP
// tlog-proof, as audit/proof.go and signer/envelope.go do.
const text = new TextEncoder(), read = new TextDecoder("utf-8", {fatal: true});
const join = (...parts) => { const b = new Uint8Array(parts.reduce((n, p) => n + p.length, 0)); let at = 0; for (const p of parts) { b.set(p, at); at += p.length; } return b; };
const base64 = s => Uint8Array.from(atob(s), c => c.charCodeAt(0));
const hexBytes = s => Uint8Array.from(s.match(/../g) || [], h => parseInt(h, 16));
const hex = b => [...b].map(v => v.toString(16).padStart(2, "0")).join("");
const sha = async b => new Uint8Array(await crypto.subtle.digest("SHA-256", b));
const same = (a, b) => a.length === b.length && a.every((v, i) => v === b[i]);
const eight = n => { const b = new Uint8Array(8); new DataView(b.buffer).setBigUint64(0, BigInt.asUintN(64, BigInt(n))); return b; };
const need = (ok, why) => { if (!ok) throw new Error(why); };

async function keyOf(pem) {
  const spki = base64(pem.replace(/-----[^-]+-----/g, "").replace(/\s+/g, ""));
  need(spki.length === 44, "this is no Ed25519 public key");
  return {id: hex(await sha(spki)), raw: spki.slice(12), key: await crypto.subtle.importKey("spki", spki, {name: "Ed25519"}, true, ["verify"])};
}
const signed = (key, sig, what) => crypto.subtle.verify({name: "Ed25519"}, key.key, sig, what);

// envelope returns the key that signed a DSSE envelope, and its payload.
async function envelope(bytes, keys) {
  const e = JSON.parse(read.decode(bytes)), payload = base64(e.payload), kind = text.encode(e.payloadType);
  const pae = join(text.encode(`DSSEv1 ${kind.length} `), kind, text.encode(` ${payload.length} `), payload);
  for (const s of e.signatures) for (const k of keys) if (await signed(k, base64(s.sig), pae)) return {key: k, payload: JSON.parse(read.decode(payload))};
  throw new Error("no known key has signed the receipt");
}

// nanos is a time of RFC 3339 in nanoseconds.
function nanos(t) {
  const m = /^(.{19})(?:\.(\d{1,9}))?Z$/.exec(t);
  need(m, "a time that is none");
  return BigInt(Date.parse(m[1] + "Z")) * 1000000n + BigInt((m[2] || "").padEnd(9, "0") || 0);
}

// rowHash is what the hash of a row must be. data is its JSON, byte for byte.
async function rowHash(row, data) {
  const parts = [text.encode("sandboxmcp audit row 1\n"), hexBytes(row.prev), eight(row.seq), eight(nanos(row.time))];
  for (const s of [text.encode(row.kind), text.encode(row.run || ""), text.encode(row.namespace), data]) parts.push(eight(s.length), s);
  return sha(join(...parts));
}

// raw returns the bytes of the value of "data" in the JSON of a row: parsing and writing it again could change them.
function raw(json) {
  const at = json.indexOf('"data":');
  need(at >= 0, "a row without data");
  let i = at + 7, depth = 0, quoted = false;
  const from = i;
  for (; i < json.length; i++) {
    const c = json[i];
    if (quoted) { if (c === "\\") i++; else if (c === '"') quoted = false; continue; }
    if (c === '"') quoted = true;
    else if (c === "{" || c === "[") depth++;
    else if ((c === "}" || c === "]") && --depth === 0) return text.encode(json.slice(from, i + 1));
  }
  throw new Error("a row that ends too soon");
}

// rootOf is the root of the tree that a leaf and its proof make (RFC 9162, 2.1.3.2).
async function rootOf(leaf, index, size, path) {
  let fn = BigInt(index), sn = BigInt(size) - 1n, r = leaf;
  const node = (a, b) => sha(join(Uint8Array.of(1), a, b));
  for (const p of path) {
    need(sn > 0n, "the proof is too long");
    if (fn & 1n || fn === sn) {
      r = await node(p, r);
      while (!(fn & 1n) && fn > 0n) { fn >>= 1n; sn >>= 1n; }
    } else r = await node(r, p);
    fn >>= 1n; sn >>= 1n;
  }
  need(sn === 0n, "the proof is too short");
  return r;
}

async function included(proof, keys) {
  const [head, ...rest] = proof.split("\n\n");
  const lines = head.split("\n"), note = rest.join("\n\n");
  need(lines[0] === "c2sp.org/tlog-proof@v1" && lines[1].startsWith("extra ") && lines[2].startsWith("index "), "this is no tlog-proof");
  const json = read.decode(base64(lines[1].slice(6))), row = JSON.parse(json), index = Number(lines[2].slice(6));
  need(index === row.seq - 1, "the proof is of another row");
  const hash = await rowHash(row, raw(json));
  need(hex(hash) === row.hash, "the row was edited: its hash is wrong");
  const cut = note.lastIndexOf("\n\n"), said = note.slice(0, cut + 1), signatures = note.slice(cut + 2).trim().split("\n");
  const [origin, size, root] = said.split("\n");
  let by = null;
  for (const line of signatures) {
    const m = /^\u2014 (\S+) (\S+)$/.exec(line), sig = m && m[1] === origin && base64(m[2]);
    for (const k of sig ? keys : []) {
      const id = (await sha(join(text.encode(origin + "\n"), Uint8Array.of(1), k.raw))).slice(0, 4);
      if (!by && same(id, sig.slice(0, 4)) && await signed(k, sig.slice(4), text.encode(said))) by = k;
    }
  }
  need(by, "no known key has signed the checkpoint");
  const leaf = await sha(join(Uint8Array.of(0), hash));
  need(same(await rootOf(leaf, index, Number(size), lines.slice(3).map(base64)), base64(root)), "the row is not in the log that the checkpoint covers");
  return {row, json, size, by};
}

export async function check(evidence, pem, tell, words) {
  if (!globalThis.crypto?.subtle) return tell(words.cant, true);
  let keys;
  try { keys = await Promise.all((pem ? [pem] : evidence.keys.map(k => k.pem)).map(keyOf)); } catch (err) { return tell(err.name === "NotSupportedError" ? words.cant : words.fails + " " + err.message, true); }
  const receipt = base64(evidence.receipt), {key, payload} = await envelope(receipt, keys);
  tell(words.signed, false);
  const {row, size, by} = await included(evidence.proof, keys);
  for (const k of [key, by]) { // one that was replaced signs nothing that came later
    const known = evidence.keys.find(e => e.id === k.id);
    need(!known?.until || Date.parse(row.time) <= Date.parse(known.until), "the key was replaced or revoked before this run");
  }
  need(row.run === evidence.run && JSON.stringify(payload).includes(evidence.run), "it is of another run");
  need(row.data.receipt_sha256 === hex(await sha(receipt)), "the row names another receipt");
  tell(words.binds, false);
  tell(words.chained, false, row.hash);
  tell(words.included, false, size);
  tell(words.bykey, false, key.id);
  tell(pem ? words.yours : words.servers, false);
}
