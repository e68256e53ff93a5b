most => {
  const root = document.documentElement;
  const cut = text => text.slice(0, most);
  const roots = [];
  const collect = tree => {
    for (const element of tree.querySelectorAll('*')) {
      if (element.shadowRoot) {
        roots.push(element.shadowRoot);
        collect(element.shadowRoot);
      }
    }
  };
  collect(document);
  let html = root ? root.outerHTML : '';
  if (roots.length) {
    // What components show is part of the page, and stands in templates, which readers pass over.
    html = '<html>' + root.getHTML({shadowRoots: roots})
      .replace(/<template shadowrootmode="[a-z]*"[^>]*>/g, '<div>')
      .replace(/<template/g, '<div hidden').replace(/<\/template>/g, '</div>') + '</html>';
  }
  const shown = [document.body, ...roots.flatMap(tree => [...tree.children])];
  const text = shown.map(element => element && element.innerText || '').filter(part => part).join('\n');
  return {url: location.href, title: document.title, html: cut(html), text: cut(text), cut: html.length > most || text.length > most};
}
