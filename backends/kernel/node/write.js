const nap = new main.Int32Array(new main.SharedArrayBuffer(4));
// writeAll returns when all is written, also if another process made the descriptor non-blocking, and reports
// whether it succeeded.
const writeAll = (fd, bytes) => {
  for (let n = 0; n < bytes.length;) {
    try {
      n += writeSync(fd, bytes, n, bytes.length - n);
    } catch (e) {
      if (e.code !== 'EAGAIN') return false;
      wait(nap, 0, 0, 1);
    }
  }
  return true;
};

const quote = JSON.stringify;
const send = (json) => {
  const body = toBytes(json, 'utf8');
  const frame = allocBytes(4 + body.length);
  frame.writeUInt32BE(body.length, 0);
  copyBytes(body, frame, 4);
  if (!writeAll(3, frame)) process.reallyExit(1);
};

// Node's own streams for pipes set them to non-blocking mode, for child processes, too, and may buffer output.
// These write at once, so that nothing is lost or overtakes a mark.
const output = (fd) => {
  const s = new Writable({
    decodeStrings: true,
    write(chunk, encoding, done) {
      writeAll(fd, chunk);
      done();
    },
  });
  s.fd = fd;
  s._type = 'pipe';
  s._isStdio = true;
  s.destroy = s._destroy = () => s;
  const write = s.write;
  // A cell that ends the stream must not end it for later cells.
  s.end = (...args) => {
    const done = typeof args.at(-1) === 'function' ? args.pop() : undefined;
    if (args[0] !== undefined && args[0] !== null) write.apply(s, args);
    if (done) setImmediate(done);
    return s;
  };
  return s;
};
const stdout = output(1);
const stderr = output(2);
Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, get: () => stdout });
Object.defineProperty(process, 'stderr', { configurable: true, enumerable: true, get: () => stderr });

// A duplicate that a cell can't close by number. It is unavailable if the pipe belongs to another user; then marks
// are written to the output itself.
const privately = (fd) => {
  try {
    return fs.openSync('/proc/self/fd/' + fd, fs.constants.O_WRONLY | fs.constants.O_APPEND);
  } catch {
    return fd;
  }
};
const markFds = [privately(1), privately(2)];
