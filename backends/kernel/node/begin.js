// The driver of Node sessions. It speaks the kernel protocol on descriptor 3.
//
// How cells keep their names. Three designs were tried. V8's own REPL mode (the inspector's
// Runtime.evaluate with replMode) refuses const after let or function, and has no import(). Running
// cells inside `with (names)` makes loops 75 times as slow. So cells are parsed, with the acorn that Node has
// inside, and rewritten at the parser's positions: each top-level name is declared once, as a `let`
// of the main context's script scope, and its declaration becomes an assignment. A name may so be
// declared again by any keyword, functions of earlier cells see the new value, a name such as `process`
// or `URL` hides the global from cells and from nothing else, and V8 still optimises its uses. The
// body is run as an async arrow function, which gives await and `this === globalThis`. The holes:
// assigning to a const is not refused, a name is undefined and not dead before its declaration, and
// the source text of a declared function lacks its name. Syntax newer than that acorn runs
// unrewritten: its names end with the cell.
//
// How the driver is safe from cells. It lives in a context of its own, so that nothing that a cell
// does to JSON, Promise or Array.prototype reaches it; of the main context's functions it keeps
// references. A cell starts as a promise job, with no frame of the driver's below it.
//
// How code is stopped. A signal's handler waits for the event loop, which `for (;;);` never gives
// back. So while cells run, a worker thread gets SIGINT as well, and when the cell has not ended
// shortly after, has V8 terminate running code: loops, endless promise jobs, Atomics.wait. It costs
// about 8 MB, and ends when no cell has run for a while. Interrupted at an await, a cell's
// code stays where it is, and goes on if what it waits for comes.
//
// A cell is done when its own code and its value's promise are: its timers, servers and other
// promises go on in the background.
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
const watchIdle = 10000; // ms after the last cell, after which the interrupting thread ends

const internal = (name) => {
  try {
    return require(name);
  } catch {
    return undefined;
  }
};
// Node says on stderr that some of what is needed here is internal or experimental.
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
