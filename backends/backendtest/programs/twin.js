const fs = require('fs'), os = require('os'), path = require('path'), cp = require('child_process'), Module = require('module');
const read = (n) => { try { return fs.readFileSync(n, 'latin1'); } catch (e) { return String(e); } };
const tree = (d) => fs.existsSync(d) ? fs.readdirSync(d).sort().map((n) => { const s = fs.lstatSync(path.join(d, n)); return [n, s.mode, s.uid, s.nlink, s.isDirectory() ? tree(path.join(d, n)) : 0]; }) : null;
const seen = {
  argv: process.argv, execArgv: process.execArgv, argv0: process.argv0, title: process.title, execPath: process.execPath, env: Object.entries(process.env),
  cache: Object.keys(require.cache), main: [require.main === module, require.main.filename], children: module.children.length, paths: module.paths, parent: String(module.parent),
  pathCache: Object.keys(Module._pathCache), globalPaths: Module.globalPaths, id: module.id, loaded: module.loaded, builtins: Module.builtinModules.length,
  preload: process._preload_modules, own: Object.getOwnPropertyNames(process).sort(), globals: Object.getOwnPropertyNames(globalThis).sort(), requireKeys: Object.keys(require), exts: Object.keys(require.extensions),
  loaded_list: process.moduleLoadList, handles: process.getActiveResourcesInfo(), listeners: process.eventNames().map(String), stack: new Error('x').stack, features: process.features,
  ids: [process.getuid(), process.geteuid(), process.getgid(), process.getgroups()], pids: [process.pid, process.ppid], umask: process.umask(), cwd: process.cwd(), debug: process.debugPort,
  home: os.homedir(), user: os.userInfo(), host: os.hostname(), tmp: os.tmpdir(), cpus: os.cpus().length, nice: os.getPriority(),
  cmdline: read('/proc/self/cmdline'), environ: read('/proc/self/environ'), comm: read('/proc/self/comm'), limits: read('/proc/self/limits'), oom: read('/proc/self/oom_score_adj'),
  fds: fs.readdirSync('/proc/self/fd').map((n) => { try { return [n, fs.readlinkSync('/proc/self/fd/' + n).split(':')[0]]; } catch (e) { return [n, e.code]; } }).filter((x) => x[1] !== 'ENOENT' && !x[1].startsWith('/proc/')),
  std: [0, 1, 2].map((i) => { const s = fs.fstatSync(i); return [s.mode, s.uid]; }), tty: [process.stdin.isTTY, process.stdout.isTTY],
  mounts: read('/proc/self/mountinfo').split('\n').map((l) => l.split(' - ')[0].split(' ').slice(3)),
  stat: (() => { const s = read('/proc/self/stat'); const f = s.slice(s.lastIndexOf(')') + 2).split(' '); return [4, 5, 6, 7, 8, 18, 19, 20, 31, 32, 33, 34, 38, 40, 41, 52].map((n) => f[n - 3]); })(),
  status: read('/proc/self/status').split('\n').filter((l) => /^(Umask|Tgid|Pid|PPid|TracerPid|Uid|Gid|FDSize|Groups|NS|Threads|Sig|Shd|Cap|NoNew|Seccomp)/.test(l)),
  tasks: fs.readdirSync('/proc/self/task'), names: fs.readdirSync('/proc/self/task').map((n) => read('/proc/self/task/' + n + '/comm')), processes: fs.readdirSync('/proc').filter((n) => +n),
  files: ['/workspace', '/tmp', '/run', '/dev/shm', '/var', '/home'].map(tree), dirs: ['/workspace', '/tmp'].map((d) => [fs.statSync(d).nlink, fs.statSync(d).size]),
  childenv: cp.execSync('env') + '', child: cp.execFileSync(process.execPath, ['-p', 'JSON.stringify([process.execArgv, process.argv, Object.keys(process.env), process._preload_modules])']) + '',
  report: (() => { const r = process.report.getReport(); return [r.header.commandLine, r.header.cwd, r.environmentVariables, r.userLimits, r.workers, r.header.event, r.libuv.map((h) => [h.type, h.is_active, h.is_referenced])]; })(),
  intl: [Intl.DateTimeFormat().resolvedOptions(), new Date(0).toString()], stdin: fs.readFileSync(0, 'utf8'), warnings: process.noDeprecation, sourceMaps: process.sourceMapsEnabled,
  scope: read('/workspace/package.json'), resolve: (() => { try { return require('nothing'); } catch (e) { return e.message; } })(),
};
for (const k of Object.keys(seen).sort()) console.log(k, '=', JSON.stringify(seen[k]));
const { Worker } = require('worker_threads');
new Worker('console.log("worker", JSON.stringify([process.argv, process.execArgv, Object.entries(process.env), Object.keys(require.cache), process._preload_modules]))', { eval: true }).on('exit', () => {
  process.on('exit', (c) => console.log('exit', c));
  setImmediate(() => { function deep(n) { return n ? deep(n - 1) : nothing.at.all; } deep(2); });
});
