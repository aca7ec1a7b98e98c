// The command line: its commands, their common options, and how a command ends.
import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import * as bench from './commands/bench.mjs';
import * as cache from './commands/cache.mjs';
import * as compile from './commands/compile.mjs';
import * as info from './commands/info.mjs';
import * as inspect from './commands/inspect.mjs';
import * as profile from './commands/profile.mjs';
import * as run from './commands/run.mjs';
import * as view from './commands/view.mjs';
import { Failure, UsageError } from './errors.mjs';
import { Output } from './output.mjs';

const { version } = createRequire(import.meta.url)('../package.json');

const INTERRUPTED = 130;
const RESTORE_TERMINAL = '\x1b[?25h\x1b[?7h';

const EXAMPLES = `
Examples:
  webnn-node inspect model.onnx
  webnn-node run model.onnx --input photo.jpg --labels labels.txt
  webnn-node bench model.onnx --against onnxruntime-node
  webnn-node profile model.onnx --html profile.html
  webnn-node compile model.onnx

Exit codes:
  0    success
  1    failure: unsupported model, unreadable file
  2    wrong usage
  130  interrupted`;

/**
 * Adds a command: `define` adds arguments and options, `execute` does the work. `execute` learns which options were
 * given: options with a default always have a value.
 * @param {Command} program
 * @param {import('./types.mjs').CommandDefinition} definition
 */
function addCommand(program, { name, description, define, execute, help }) {
  const command = program.command(name).description(description);
  define(command);
  command
    .option('--json', 'print one JSON document instead of text')
    .option('--no-color', 'print without colors, like the variable NO_COLOR')
    .option('--verbose', 'print the stack trace of an error')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', help)
    .showHelpAfterError(`(webnn-node ${name} --help shows the usage)`)
    .action(async (...args) => {
      /** @type {import('./types.mjs').Options} */
      const options = args.at(-2);
      const output = new Output(options);
      const exitCode = await execute(output, args.slice(0, -2), options, (name) => command.getOptionValueSource(name) === 'cli');
      // Failing streams set it as well.
      process.exitCode = exitCode || process.exitCode || 0;
    });
}

/** The program with all commands. The documentation lists their options from it. */
export function createProgram() {
  const program = new Command('webnn-node')
    .description('Inspects, runs, measures and shows ONNX models, on the CPU or a GPU.')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand('help [command]', 'print the help of a command')
    .addHelpText('after', EXAMPLES)
    .showHelpAfterError('(webnn-node --help shows the usage)')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'webnn-node: ')) });
  for (const command of [info, inspect, run, bench, profile, view, compile, cache]) addCommand(program, command.default);
  return program;
}

/**
 * Prints an error as one message, with the address that explains it if it has a code, and returns its exit code.
 * @param {any} error
 * @param {boolean} verbose
 */
function report(error, verbose) {
  if (error instanceof CommanderError) {
    // Help and version are errors with exit code 0; commander has already printed the others.
    return error.exitCode === 0 ? 0 : new UsageError().exitCode;
  }
  const failure = error instanceof Failure || error instanceof UsageError;
  const text = verbose ? error.stack : error.message;
  const help = error.help ?? error.cause?.help;
  process.stderr.write(`webnn-node: ${text}\n${help === undefined ? '' : `See ${help}\n`}`);
  return failure ? error.exitCode : new Failure().exitCode;
}

/** Ends at once, after restoring the cursor and the line wrapping, which a progress line may have turned off. */
function interrupt() {
  if (process.stderr.isTTY) process.stderr.write(`${RESTORE_TERMINAL}\n`);
  process.exit(INTERRUPTED);
}

/**
 * Ends the program when standard output fails. A reader that closes the pipe early (`| head`) is not an error.
 * @param {NodeJS.ErrnoException} error
 */
function endWithoutOutput(error) {
  if (error.code === 'EPIPE') process.exit(process.exitCode ?? 0);
  process.stderr.write(`webnn-node: cannot write to standard output: ${error.message}\n`);
  process.exit(new Failure().exitCode);
}

/**
 * Handles a failure of standard error, for which there is nowhere to report it: the work goes on, and only the exit
 * code shows it.
 * @param {NodeJS.ErrnoException} error
 */
function endWithoutMessages(error) {
  if (error.code !== 'EPIPE') process.exitCode = process.exitCode || new Failure().exitCode;
}

/**
 * Runs the command line and sets the exit code of the process.
 * @param {string[]} args without the program's name
 */
export async function main(args) {
  process.on('SIGINT', interrupt);
  process.stdout.on('error', endWithoutOutput);
  process.stderr.on('error', endWithoutMessages);
  try {
    await createProgram().parseAsync(args, { from: 'user' });
  } catch (error) {
    process.exitCode = report(error, args.includes('--verbose'));
  }
}
