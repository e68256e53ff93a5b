// The parser runs in the driver's context, which no cell can reach.
const parser = () => {
  const name = 'internal/deps/acorn/acorn/dist/acorn';
  try {
    const source = internalBinding('builtins').natives?.[name] ?? process.binding('natives')[name];
    const module = { exports: {} };
    new Function('exports', 'module', source)(module.exports, module);
    return module.exports;
  } catch {
    return internal(name);
  }
};
const acorn = parser();
// For import() in text that a cell passes to eval. Node 18 lacks it there.
const scriptOptions = { importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER };
if (scriptOptions.importModuleDynamically) {
  quietly(() => new Script("import('node:fs')", scriptOptions).runInThisContext());
}
const script = (text, filename, lineOffset = 0, columnOffset = 0) =>
  new Script(text, { ...scriptOptions, filename, lineOffset, columnOffset });

const names = Object.create(null); // declared by cells
const shifts = Object.create(null); // cell name -> text inserted into its lines
const shiftAt = (name, line, column) => {
  let by = 0;
  const list = shifts[name] ?? [];
  for (const s of list) if (s.line === line && column > s.column + 1 + by) by += s.by;
  return by;
};

const boundNames = (pattern, out) => {
  switch (pattern?.type) {
    case 'Identifier': out.push(pattern.name); break;
    case 'ObjectPattern': for (const p of pattern.properties) boundNames(p.value ?? p.argument, out); break;
    case 'ArrayPattern': for (const p of pattern.elements) boundNames(p, out); break;
    case 'AssignmentPattern': boundNames(pattern.left, out); break;
    case 'RestElement': boundNames(pattern.argument, out); break;
  }
  return out;
};
const walk = (node, visit) => {
  const todo = [node];
  while (todo.length > 0) {
    const n = todo.pop();
    if (visit(n) === false) continue;
    for (const key of Object.keys(n)) {
      const v = n[key];
      for (const child of Array.isArray(v) ? v : [v]) if (typeof child?.type === 'string') todo.push(child);
    }
  }
};
const blank = (text) => text.replace(/[^\n\r\u2028\u2029]/g, ' ');
const isFunction = (n) => /Function/.test(n.type);
const isScope = (n) => isFunction(n) || /^Class/.test(n.type) || n.type === 'StaticBlock';

const nameOf = (n) => (n.type === 'Literal' ? n.value : n.name);
// importing returns an import declaration as an await.
const importing = (node) => {
  const from = quote(node.source.value);
  const attributes = (node.attributes ?? []).map((a) => `${quote(nameOf(a.key))}:${quote(a.value.value)}`);
  const options = attributes.length > 0 ? `,{with:{${attributes}}}` : '';
  if (node.specifiers.length === 0) return `await imprt$(${from}${options});`;
  let out = '';
  const wanted = [];
  for (const s of node.specifiers) {
    if (s.type === 'ImportNamespaceSpecifier') {
      out += `${s.local.name}=await imprt$(${from}${options});`;
      continue;
    }
    const name = s.type === 'ImportDefaultSpecifier' ? 'default' : nameOf(s.imported);
    wanted.push(`${quote(name)}:${s.local.name}`);
  }
  if (wanted.length > 0) out += `({${wanted}}=imprt$.pick(await imprt$(${from}${options}),${from},${
    quote(wanted.map((w) => JSON.parse(w.slice(0, w.lastIndexOf(':')))).join(','))}));`;
  return out;
};

// rewrite converts a cell's code to executable code: see the top of begin.js. It keeps each line's number, and each
// column except for the changes that it records in shifts.
const rewrite = (code, cellName) => {
  const tree = acorn.parse(code, {
    ecmaVersion: 'latest', sourceType: 'script', allowAwaitOutsideFunction: true,
    allowImportExportEverywhere: true, allowHashBang: true, locations: true,
  });
  const edits = [];
  const declared = [];
  const reset = [];
  const functions = [];
  const moved = [];
  const strict = tree.body[0]?.directive === 'use strict';
  const replace = (start, end, text) => edits.push({ start, end, text });
  const insert = (node, text) => {
    replace(node.start, node.start, text);
    moved.push({ line: node.loc.start.line, column: node.loc.start.column, by: text.length });
  };
  const hide = (start, end) => replace(start, end, ';' + blank(code.slice(start, end)).slice(1));
  // assigning turns a declaration into an expression. `0,` keeps a following brace from being a block; the
  // semicolon keeps the line before from continuing.
  const assigning = (node, inList) => {
    const word = node.kind.length;
    const bare = node.declarations[0].id.type === 'Identifier' || inList === 'each';
    const text = bare ? (inList === true ? ';' : '') : (inList === true ? ';0,' : '0,');
    replace(node.start, node.start + word, text.padEnd(word));
    for (const d of node.declarations) {
      boundNames(d.id, declared);
      if (!d.init && node.kind !== 'var') boundNames(d.id, reset);
    }
  };
  const hoistFunction = (node) => {
    const { id } = node;
    declared.push(id.name);
    const text = `${id.name}=` + code.slice(node.start, id.start) + blank(id.name) + code.slice(id.end, node.end);
    functions.push({
      text, name: id.name, start: node.start, end: node.end,
      line: node.loc.start.line - 1, column: node.loc.start.column - id.name.length - 1,
    });
    hide(node.start, node.end);
  };
  const nestedVars = (statement) => walk(statement, (n) => {
    if (isScope(n)) return false;
    if (n.type === 'ForStatement' && n.init?.kind === 'var') assigning(n.init, 'head');
    else if (/^For(In|Of)Statement$/.test(n.type) && n.left.kind === 'var') assigning(n.left, 'each');
    else if (n.type === 'BlockStatement' || n.type === 'SwitchCase') {
      for (const s of n.body ?? n.consequent) if (s.kind === 'var') assigning(s, true);
    } else {
      for (const s of [n.body, n.consequent, n.alternate]) {
        if (s?.type === 'VariableDeclaration' && s.kind === 'var') assigning(s, 'alone');
      }
    }
    return true;
  });

  let prologue = '';
  let last;
  const statement = (node) => {
    switch (node?.type) {
      case 'FunctionDeclaration':
        if (node.id) hoistFunction(node);
        return;
      case 'EmptyStatement':
        return;
      case 'ImportDeclaration':
        for (const s of node.specifiers) declared.push(s.local.name);
        prologue += importing(node);
        hide(node.start, node.end);
        return;
      case 'ExportNamedDeclaration':
      case 'ExportDefaultDeclaration':
        hide(node.start, node.declaration ? node.declaration.start : node.end);
        statement(node.declaration);
        return;
      case 'ClassDeclaration':
        if (!node.id) return;
        declared.push(node.id.name);
        insert(node, `;${node.id.name}=`);
        replace(node.end, node.end, ';');
        moved.push({ line: node.loc.end.line, column: node.loc.end.column, by: 1 });
        break;
      case 'VariableDeclaration':
        if (/^(var|let|const)$/.test(node.kind)) assigning(node, true);
        break;
      case 'ExpressionStatement':
        break;
      default:
        if (node && /Statement$/.test(node.type)) nestedVars(node);
    }
    last = node;
  };
  for (const node of tree.body) statement(node);
  if (last?.type === 'ExpressionStatement') insert(last, ';return ');
  if (code.startsWith('#!')) replace(0, 2, '//');
  if (/import\s*[.(/]/.test(code)) {
    walk(tree, (n) => {
      if (n.type === 'MetaProperty' && n.meta.name === 'import') replace(n.start, n.end, 'imprt$.meta'.padEnd(n.end - n.start));
      if (n.type === 'ImportExpression') replace(n.start, n.start + 6, 'imprt$');
      return true;
    });
  }
  for (const f of functions) {
    f.text = apply(f.text, edits.filter((e) => e.start > f.start && e.end < f.end), f.start - f.name.length - 1);
  }
  const outer = edits.filter((e) => !functions.some((f) => e.start > f.start && e.end < f.end));
  const head = (strict ? '"use strict";' : '') + prologue + reset.map((n) => n + '=undefined;').join('');
  shifts[cellName] = moved;
  const kept = Object.keys(shifts);
  if (kept.length > 1000) delete shifts[kept[0]];
  return { declared, functions, strict, text: `(async()=>{${head}\n${apply(code, outer, 0)}\n})` };
};
const apply = (code, edits, offset) => {
  edits.sort((a, b) => a.start - b.start || a.end - b.end);
  let out = '';
  let at = 0;
  for (const e of edits) {
    out += code.slice(at, e.start - offset) + e.text;
    at = e.end - offset;
  }
  return out + code.slice(at);
};
