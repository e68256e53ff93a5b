max => {
  // What a form holds may be named like a property of the form, and stands for it in this world as well. So what is
  // asked of any element is asked for as its type has it.
  const of = (type, name) => {
    const {get} = Object.getOwnPropertyDescriptor(type.prototype, name);
    return element => get.call(element);
  };
  const shadow = of(Element, 'shadowRoot'), words = of(HTMLElement, 'innerText');
  const root = document.documentElement;
  const cut = text => text.slice(0, max);
  const roots = [];
  const collect = tree => {
    for (const element of tree.querySelectorAll('*')) {
      const inner = shadow(element);
      if (inner) {
        roots.push(inner);
        collect(inner);
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
  const text = shown.map(element => element instanceof HTMLElement && words(element) || '').filter(part => part).join('\n');
  return {url: location.href, title: document.title, html: cut(html), text: cut(text), cut: html.length > max || text.length > max, loading: document.readyState === 'loading'};
}
