// Prints the packages that can be required: name, version, and the folder that has them.
'use strict'
const fs = require('fs')
const path = require('path')
const { globalPaths, _nodeModulePaths } = require('module')

function read (folder) {
  try { return fs.readdirSync(folder) } catch { return [] }
}

const seen = new Set()
for (const folder of [..._nodeModulePaths(process.cwd()), ...globalPaths]) {
  for (const entry of read(folder)) {
    const names = entry.startsWith('@') ? read(path.join(folder, entry)).map(name => `${entry}/${name}`) : [entry]
    for (const name of names) {
      if (seen.has(name) || name.startsWith('.')) continue
      try {
        const { version } = JSON.parse(fs.readFileSync(path.join(folder, name, 'package.json'), 'utf8'))
        seen.add(name)
        console.log([name, version, folder].join('\t'))
      } catch {}
    }
  }
}
