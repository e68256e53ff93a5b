let head = allocBytes(4);
let body = null;
let filled = 0;
const receive = (bytes) => {
  for (let at = 0; at < bytes.length;) {
    const into = body ?? head;
    const n = Math.min(into.length - filled, bytes.length - at);
    copyBytes(bytes, into, filled, at, at + n);
    filled += n;
    at += n;
    if (filled < into.length) return;
    filled = 0;
    if (body === null) {
      body = allocBytes(head.readUInt32BE(0));
      continue;
    }
    const text = bytesToText(body, 'utf8');
    body = null;
    perform(text);
  }
};
const leave = () => process.reallyExit(0);
setImmediate(() => {
  provide();
  const connection = new net.Socket({
    fd: 3, readable: true, writable: false,
    onread: { buffer: allocBytes(64 << 10), callback: (n, buffer) => { receive(buffer.subarray(0, n)); return true; } },
  });
  connection.on('end', leave);
  connection.on('close', leave);
  connection.on('error', leave);
  connection.resume();
  send(`{"op":"ready","version":${quote(process.versions.node)}}`);
});
