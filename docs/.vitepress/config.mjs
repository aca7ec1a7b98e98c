// The site of the documentation: the pages of docs/, and those that scripts/site.mjs writes into docs/generated/.

import { readFileSync } from 'node:fs';
import { slug } from 'github-slugger';
import { defineConfig } from 'vitepress';
import { PLACES, plainCorners, siteLinks } from './links.mjs';

const read = (path) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');

const { description, version, repository } = JSON.parse(read('../package.json'));
const address = repository.url.replace(/^git\+|\.git$/g, '');

const guides = (() => {
  const sections = read('README.md')
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [text] = section.split('\n', 1);
      const links = [...section.matchAll(/^\| \[([^\]]+)\]\(([\w-]+)\.md\)/gm)];
      return { text, items: links.map(([, title, page]) => ({ text: title, link: PLACES[`docs/${page}.md`] ?? `/${page}` })) };
    });
  return sections.filter(({ items }) => items.length > 0);
})();

/** The pages of operators, by families. */
const operators = JSON.parse(read('generated/operators.json')).map(({ title, members }) => ({
  text: title,
  items: members.map((name) => ({ text: name, link: `/operators/${name}` })),
}));

/** The reference: entries, and what each declares. Nothing is collapsed: the theme nests buttons where it is. */
const navigation = JSON.parse(read('generated/reference.json'));
const referenceLink = (path) => `/reference/${path.replace(/(index)?\.md$/, '')}`;
const entries = navigation.map(({ title, path }) => ({ text: title === 'index' ? 'webnn-node' : `webnn-node/${title}`, link: referenceLink(path) }));
const reference = Object.fromEntries(
  navigation.map(({ path, children }) => [
    referenceLink(path),
    [
      { text: 'Entries', items: entries },
      ...children.map(({ title, children }) => ({ text: title, items: children.map(({ title, path }) => ({ text: title, link: referenceLink(path) })) })),
    ],
  ]),
);

export default defineConfig({
  title: 'webnn-node',
  description,
  lang: 'en',
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(read('.vitepress/icon.svg'))}` }]],
  outDir: '../target/site',
  cacheDir: '../target/vitepress',
  cleanUrls: true,
  // The site has a copy with links to the pages of operators.
  srcExclude: ['operators.md'],
  rewrites: {
    'README.md': 'overview.md',
    'generated/:path(.*)': ':path',
  },
  markdown: {
    config: (md) => {
      siteLinks(md, { repository: address, entries: navigation.map(({ title }) => title) });
      plainCorners(md);
    },
    // The addresses that headings have at GitHub.
    anchor: { slugify: slug },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  themeConfig: {
    nav: [
      { text: 'Guides', link: '/overview', activeMatch: '^/(?!operators/|reference/|errors$)[\\w-]+$' },
      { text: 'Operators', link: '/operators/', activeMatch: '^/operators/' },
      { text: 'Reference', link: '/reference/', activeMatch: '^/reference/' },
      { text: 'Errors', link: '/errors' },
      { text: version, link: `${address}/blob/main/CHANGELOG.md` },
    ],
    sidebar: {
      '/': guides,
      '/operators/': [{ text: 'All operators', link: '/operators/' }, ...operators],
      '/reference/': [{ text: 'Entries', items: entries }],
      ...reference,
    },
    outline: [2, 3],
    socialLinks: [{ icon: 'github', link: address }],
    search: {
      provider: 'local',
      options: {
        // The global interfaces of webnn-node/auto have the members of those of webnn-node once more.
        _render: (source, env, md) => (/^reference\/auto\/interfaces\//.test(env.relativePath) ? '' : md.render(source, env)),
        // Guides before operators before types, which repeat every word. Runs in browsers: it may use nothing of this file.
        miniSearch: { searchOptions: { boostDocument: (id) => (/\/reference\//.test(id) ? 0.1 : /\/operators\//.test(id) ? 0.5 : 1) } },
      },
    },
  },
});
