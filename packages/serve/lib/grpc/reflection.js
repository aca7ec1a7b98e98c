// grpc.reflection: tells tools such as grpcurl which services there are, and their messages. Both versions are the same but for their names.

import { toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { file_grpc_health_v1_health as healthFile } from './gen/grpc/health/v1/health_pb.js';
import { file_grpc_reflection_v1_reflection as file, ServerReflection } from './gen/grpc/reflection/v1/reflection_pb.js';
import {
  file_grpc_reflection_v1alpha_reflection as alphaFile,
  ServerReflection as ServerReflectionAlpha,
} from './gen/grpc/reflection/v1alpha/reflection_pb.js';
import { file_inference as inferenceFile } from './gen/inference_pb.js';
import { methodsOf } from './methods.js';

/** None of them needs another. @type {import('@bufbuild/protobuf').DescFile[]} */
const FILES = [inferenceFile, healthFile, file, alphaFile];

/** Codes of gRPC. */
const NOT_FOUND = 5;
const UNIMPLEMENTED = 12;

/**
 * The names that a file defines, without those of fields, which tools do not ask for.
 * @param {import('@bufbuild/protobuf').DescFile} file
 */
function symbolsOf({ services, messages, enums }) {
  /** @type {(message: import('@bufbuild/protobuf').DescMessage) => string[]} */
  const nested = ({ typeName, nestedEnums, nestedMessages }) => [typeName, ...nestedEnums.map((entry) => entry.typeName), ...nestedMessages.flatMap(nested)];
  const methods = services.flatMap(({ typeName, methods: all }) => [typeName, ...all.map(({ name }) => `${typeName}.${name}`)]);
  return [...methods, ...messages.flatMap(nested), ...enums.map(({ typeName }) => typeName)];
}

const SERIALIZED = new Map(FILES.map(({ proto }) => [proto.name, toBinary(FileDescriptorProtoSchema, proto)]));
const FILE_OF_SYMBOL = new Map(FILES.flatMap((entry) => symbolsOf(entry).map((name) => [name, entry.proto.name])));
const SERVICES = FILES.flatMap(({ services }) => services.map(({ typeName }) => ({ name: typeName })));

/**
 * @param {string | undefined} name of a file
 * @param {string} what was asked for
 */
function descriptor(name, what) {
  const bytes = name === undefined ? undefined : SERIALIZED.get(name);
  if (bytes === undefined) return { case: 'errorResponse', value: { errorCode: NOT_FOUND, errorMessage: `there is no ${what.slice(0, 200)}` } };
  return { case: 'fileDescriptorResponse', value: { fileDescriptorProto: [bytes] } };
}

/** How to answer what is asked. @type {Record<string, (value: any) => { case: string, value: object }>} */
const ANSWERS = {
  fileByFilename: (name) => descriptor(name, `file ${name}`),
  fileContainingSymbol: (name) => descriptor(FILE_OF_SYMBOL.get(name), `symbol ${name}`),
  fileContainingExtension: ({ containingType }) => descriptor(undefined, `extension of ${containingType}`),
  allExtensionNumbersOfType: (baseTypeName) =>
    FILE_OF_SYMBOL.has(baseTypeName)
      ? { case: 'allExtensionNumbersResponse', value: { baseTypeName, extensionNumber: [] } }
      : descriptor(undefined, `type ${baseTypeName}`),
  listServices: () => ({ case: 'listServicesResponse', value: { service: SERVICES } }),
};

/** @param {any} originalRequest */
function ServerReflectionInfo(originalRequest) {
  const { case: asked, value } = originalRequest.messageRequest;
  const answer = ANSWERS[asked] ?? (() => ({ case: 'errorResponse', value: { errorCode: UNIMPLEMENTED, errorMessage: 'the request asks for nothing' } }));
  return { validHost: originalRequest.host, originalRequest, messageResponse: answer(value) };
}

export const REFLECTION_METHODS = [ServerReflection, ServerReflectionAlpha].flatMap((service) => methodsOf(service, { ServerReflectionInfo }));
