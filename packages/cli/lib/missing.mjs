// `webnn-node inspect --missing`: what the models of a folder need, and what of it is missing.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { formatPlural } from './format.mjs';
import { readModel } from './model.mjs';

/**
 * The models in a folder and the folders in it, or the one file.
 * @param {string} path
 * @returns {string[]}
 */
function modelsOf(path) {
  if (!statSync(path).isDirectory()) return [path];
  const names = readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.onnx'));
  return names.sort().map((name) => join(path, name));
}

/**
 * @typedef {object} Survey
 * @property {string[]} models
 * @property {Record<string, number>} operators the number of models that use each
 * @property {{ operator: string, models: string[], reason: string }[]} missing the first reason of each
 * @property {{ model: string, reason: string }[]} unreadable
 */

/**
 * Inspects models. None is run.
 * @param {string} path of a folder or a model
 * @returns {Promise<Survey>}
 */
export async function survey(path) {
  const models = modelsOf(path);
  /** @type {Map<string, number>} */
  const operators = new Map();
  /** @type {Map<string, Survey['missing'][number]>} */
  const missing = new Map();
  /** @type {Survey['unreadable']} */
  const unreadable = [];
  for (const model of models) {
    try {
      const inspection = await readModel(model, {});
      for (const name of Object.keys(inspection.operators)) operators.set(name, 1 + (operators.get(name) ?? 0));
      for (const { operator: name, domain, reason } of inspection.unsupported) {
        const operator = domain === '' ? name : `${domain}.${name}`;
        const known = missing.get(operator) ?? { operator, models: [], reason };
        if (known.models.at(-1) !== model) known.models.push(model);
        missing.set(operator, known);
      }
    } catch (error) {
      unreadable.push({ model, reason: /** @type {Error} */ (error).message });
    }
  }
  const byCount = [...operators].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  const most = [...missing.values()].sort((a, b) => b.models.length - a.models.length || (a.operator < b.operator ? -1 : 1));
  return { models, operators: Object.fromEntries(byCount), missing: most, unreadable };
}

/**
 * @param {import('./output.mjs').Output} output
 * @param {Survey} found
 * @returns {number} the exit code: 1 if a model cannot be used
 */
export function printSurvey(output, found) {
  const { models, operators, missing, unreadable } = found;
  output.document(found);
  output.print(`${formatPlural(models.length, 'model')} with ${formatPlural(Object.keys(operators).length, 'operator')}`);
  if (missing.length > 0) {
    output.heading(output.style('red', formatPlural(missing.length, 'unsupported operator')));
    output.table(
      ['operator', '>models', 'the first', 'reason'],
      missing.map(({ operator, models: those, reason }) => [operator, those.length, those[0], reason]),
    );
  }
  if (unreadable.length > 0) {
    output.heading(output.style('red', `${formatPlural(unreadable.length, 'file')} that cannot be read`));
    output.table(
      ['model', 'reason'],
      unreadable.map(({ model, reason }) => [model, reason]),
    );
  }
  return missing.length + unreadable.length > 0 ? 1 : 0;
}
