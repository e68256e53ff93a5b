const os = require('os');
console.log(JSON.stringify({
  memory: os.totalmem(), processors: os.cpus().length, heap: require('v8').getHeapStatistics().heap_size_limit,
}));
