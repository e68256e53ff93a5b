const file = path.join(process.cwd(), 'session.js');
const cellModule = new Module(file);
cellModule.filename = file;
cellModule.paths = Module._nodeModulePaths(path.dirname(file));
process.mainModule = cellModule;
process.argv = [process.execPath, file];
process.execArgv = [];
const cellRequire = Module.createRequire(file);
try {
  cellRequire.main = cellModule;
} catch {}
cellModule.require = cellRequire;

const missing = /^ERR_(MODULE_NOT_FOUND|UNSUPPORTED_DIR_IMPORT)$/;
// import() searches only node_modules directories; require also finds packages along NODE_PATH.
const importModule = (name, options) => (name === 'tools' && tools !== null) ? resolve({ ...tools }) : then(load(name, options), undefined, (e) => {
  const bare = typeof name === 'string' && !/^[./]|^[a-z]+:/.test(name);
  if (!bare || !missing.test(field(e, 'code') ?? '')) throw e;
  let found;
  try {
    found = cellRequire.resolve(name);
  } catch {
    throw e;
  }
  return load(require('url').pathToFileURL(found).href, options);
});
importModule.pick = (namespace, from, list) => {
  for (const name of list.split(',')) {
    if (!(name in namespace)) {
      throw new main.SyntaxError(`The requested module '${from}' does not provide an export named '${name}'`);
    }
  }
  return namespace;
};
importModule.meta = {
  url: require('url').pathToFileURL(file).href, filename: file, dirname: path.dirname(file), main: true,
  resolve: (name) => require('url').pathToFileURL(cellRequire.resolve(name)).href,
};

// provide is called when Node's own start is over, which resets such changes.
const define = (name, value) =>
  Object.defineProperty(main, name, { value, writable: true, configurable: true, enumerable: false });
const provided = Object.create(null);
const provide = () => {
  define('imprt$', importModule);
  define('require', cellRequire);
  define('module', cellModule);
  define('exports', cellModule.exports);
  define('__filename', file);
  define('__dirname', path.dirname(file));
  define('display', display);
  Object.defineProperty(main, '_', {
    configurable: true,
    get: () => lastValue,
    set: (value) => {
      underscoreIsOurs = false;
      Object.defineProperty(main, '_', { value, writable: true, configurable: true, enumerable: true });
    },
  });
  for (const name of Object.getOwnPropertyNames(main)) provided[name] = true;
};
