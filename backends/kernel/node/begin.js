// The driver of Node sessions. It speaks the kernel protocol on descriptor 3.
//
// Names of cells: three designs were tried. V8's own REPL mode (the inspector's Runtime.evaluate with replMode)
// refuses const after let or function, and has no import(). Running cells inside `with (names)` makes loops 75
// times as slow. So cells are parsed, with the acorn inside Node, and rewritten at the parser's positions: each
// top-level name is declared once, as a `let` of the main context's script scope, and its declaration becomes an
// assignment. So a name may be declared again by any keyword, functions of earlier cells see the new value, a name
// such as `process` or `URL` hides the global from cells and from nothing else, and V8 still optimises its uses.
// The body is run as an async arrow function, which gives await and `this === globalThis`. Known gaps: assigning to
// a const is not refused, a name is undefined and not dead before its declaration, and the source text of a
// declared function lacks its name. Syntax newer than that acorn runs unrewritten: its names end with the cell.
//
// Isolation of the driver from cells: it lives in a context of its own, so that a cell's changes to JSON, Promise
// or Array.prototype don't reach it; it keeps references to the main context's functions that it needs. A cell
// starts as a promise job, with no frame of the driver below it.
//
// Interrupts: a signal's handler waits for the event loop, which `for (;;);` never returns to. So while cells run,
// a worker thread receives SIGINT as well, and if the cell has not ended shortly after, it has V8 terminate the
// running code: loops, endless promise jobs, Atomics.wait. It costs about 8 MB, and ends when no cell has run for a
// while. Code interrupted at an await stays there, and continues if its promise is settled.
//
// A cell is done when its own code and its value's promise are: its timers, servers and other promises continue in
// the background.
const { Object, Array, JSON, Math, String, Number, Error, Map, isFinite } = globalThis;
const { process, Buffer } = main;
const fs = require('fs');
const net = require('net');
const vm = require('vm');
const path = require('path');
const util = require('util');
const { Writable } = require('stream');
const { Worker } = require('worker_threads');
const { Session } = require('inspector');
const Module = require('module');
const { Script } = vm;
const { writeSync } = fs;
const { inspect } = util;
const { isNativeError, isUint8Array, isTypedArray, isProxy, isDate, isMap, isSet, isPromise } = util.types;
const { setImmediate, setTimeout, clearTimeout } = main;
const uncurry = Function.prototype.bind.bind(Function.prototype.call);
const promisePrototype = main.Promise.prototype;
const promiseThen = promisePrototype.then;
const then = uncurry(promiseThen);
const resolve = main.Promise.resolve.bind(main.Promise);
const bytesToText = uncurry(Buffer.prototype.toString);
const copyBytes = uncurry(Buffer.prototype.copy);
const { from: toBytes, alloc: allocBytes } = Buffer;
const toISO = uncurry(main.Date.prototype.toISOString);
const mapEach = uncurry(main.Map.prototype.forEach);
const setEach = uncurry(main.Set.prototype.forEach);
const mapSize = uncurry(Object.getOwnPropertyDescriptor(main.Map.prototype, 'size').get);
const setSize = uncurry(Object.getOwnPropertyDescriptor(main.Set.prototype, 'size').get);
const mainArrayPrototype = main.Array.prototype;
const mainObjectPrototype = main.Object.prototype;
const parseInMain = main.JSON.parse;
const MainError = main.Error;
const { wait } = main.Atomics;

const textMax = 256 << 10; // bytes of text/plain and of application/json in a bundle
const mediaMax = 16 << 20; // bytes of any other type, as sent
const replyMax = 60 << 20; // bytes of a variable as JSON; the host refuses frames over 64 MiB
const watchIdle = 10000; // ms from the last cell until the interrupting thread ends

const internal = (name) => {
  try {
    return require(name);
  } catch {
    return undefined;
  }
};
// Node warns on stderr that some of the features used here are internal or experimental.
const quietly = (f) => {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return f();
  } finally {
    process.emitWarning = emitWarning;
  }
};
const internalBinding = quietly(() => internal('internal/test/binding'))?.internalBinding;
const clearAsyncIdStack = internal('internal/async_hooks')?.clearAsyncIdStack;
