// Alerts at the door: what is wrong, rules, silences.
import { alertRoutes, defaults, PunctualError } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { highestId, kindOf } from '../base/ids.ts';
import { prepareAlertRule } from '../rules/alert.ts';
import { deleteAlertRule, getAlertRule, listAlertRules, putAlertRule } from '../store/alert_rules.ts';
import { acknowledgeAlert, listAlerts } from '../store/alerts.ts';
import { deleteSilence, listSilences, putSilence } from '../store/silences.ts';
import { idShape, makeCursor, readCursor } from './cursor.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerAlerts(app: FastifyInstance, { db, watchSoon }: ApiParts): void {
  register(app, alertRoutes.listAlerts, async ({ query: { limit = defaults.page, cursor, ...filter } }) => {
    const below = readCursor(cursor, { alerts: true, ...filter }, idShape) ?? highestId;
    if (below !== highestId && kindOf(below) !== 'alert') throw new PunctualError('invalid_cursor');
    const found = await listAlerts(db, { ...filter, below, limit: limit + 1 });
    const alerts = found.slice(0, limit);
    const last = found.length > limit ? alerts.at(-1) : undefined;
    return { alerts, next_cursor: last === undefined ? null : makeCursor(last.alert_id, { alerts: true, ...filter }) };
  });

  register(app, alertRoutes.acknowledgeAlert, async ({ params: { alert_id }, body }) => {
    const alert = await acknowledgeAlert(db, alert_id, body);
    if (alert === null) throw new PunctualError('alert_not_found', { detail: `No alert has the id ${alert_id}.` });
    return alert;
  });

  const requireRule = async (name: string) => {
    const rule = await getAlertRule(db, name);
    if (rule === null) throw new PunctualError('alert_rule_not_found', { detail: `There is no alert rule ${name}.` });
    return rule;
  };

  register(app, alertRoutes.listAlertRules, async () => ({ rules: await listAlertRules(db) }));

  register(app, alertRoutes.getAlertRule, ({ params }) => requireRule(params.name));

  register(app, alertRoutes.putAlertRule, async ({ params: { name }, body }) => {
    const prepared = prepareAlertRule(body);
    if ('refused' in prepared) {
      const [first] = prepared.refused;
      throw new PunctualError('invalid_input', {
        detail: `${first?.path} ${first?.message}`,
        errors: prepared.refused,
      });
    }
    await putAlertRule(db, name, body);
    watchSoon();
    return requireRule(name);
  });

  register(app, alertRoutes.deleteAlertRule, async ({ params: { name } }) => {
    if (!(await deleteAlertRule(db, name)))
      throw new PunctualError('alert_rule_not_found', { detail: `There is no alert rule ${name}.` });
    return { name };
  });

  register(app, alertRoutes.listSilences, async () => ({ silences: await listSilences(db) }));

  register(app, alertRoutes.putSilence, ({ params: { name }, body }) => putSilence(db, name, body));

  register(app, alertRoutes.deleteSilence, async ({ params: { name } }) => {
    if (!(await deleteSilence(db, name)))
      throw new PunctualError('silence_not_found', { detail: `There is no silence ${name}.` });
    watchSoon();
    return { name };
  });
}
