// Writes the JavaScript of the .proto files of packages/serve, packages/serve/lib/grpc/gen. Needs npm's registry: the compiler (100 MB) is
// in no package.json.
//
//   node scripts/generate-protobuf.mjs

import { join } from 'node:path';
import { entry, root, run } from './process.mjs';

const FOLDER = join(root, 'packages', 'serve', 'lib', 'grpc');

const COMPILERS = ['@bufbuild/buf@1.75.0', '@bufbuild/protoc-gen-es@2.13.0'];

/** Folders of .proto files: this repository's, and those of gRPC as it publishes them. */
const SOURCES = [[FOLDER, '--path', join(FOLDER, 'inference.proto')], [join(FOLDER, 'protos')]];

await entry(async () => {
  const template = JSON.stringify({
    version: 'v2',
    plugins: [{ local: 'protoc-gen-es', out: join(FOLDER, 'gen'), opt: ['target=js', 'import_extension=js'] }],
  });
  for (const source of SOURCES) {
    const packages = COMPILERS.flatMap((name) => ['--package', name]);
    await run('code of .proto files', 'npx', ['--yes', ...packages, '--', 'buf', 'generate', ...source, '--template', template]);
  }
});
