// Reads a JSON list of sources, and writes for each how V8 takes it: [as CommonJS, as a module].
const vm = require('vm');
const names = ['exports', 'require', 'module', '__filename', '__dirname'];
const accepts = (f) => { try { f(); return true; } catch { return false; } };
const sources = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify(sources.map((s) => [
  accepts(() => vm.compileFunction(s, names)),
  accepts(() => new vm.SourceTextModule(s)),
])));
