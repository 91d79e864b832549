// Alerts, their rules, channels and deliveries as rows of tables. Used by `punctual alerts`.
import type { Alert, AlertRule, Channel, Delivery, Silence, Subscription } from '@punctual/contract';
import { oneLine, type Paint } from './output.ts';
import { showRelative } from './time.ts';

const max_chars = 80;

const ago = (timestamp: string | null, now: number): string =>
  timestamp === null ? '–' : showRelative(Date.parse(timestamp), now);

export const alertHead = ['ALERT', 'STATE', 'RULE', 'SINCE', 'COUNT', 'WHAT'];
export function alertRow(alert: Alert, paint: Paint, now: number): string[] {
  const state = alert.state === 'resolved' ? 'resolved' : alert.acknowledged_at !== null ? 'acknowledged' : 'firing';
  return [
    alert.alert_id,
    state === 'firing' ? paint('red', state) : state,
    alert.rule,
    ago(alert.since, now),
    String(alert.count),
    `${oneLine(alert.summary, max_chars)}${alert.silenced ? ' (silenced)' : ''}`,
  ];
}

export const ruleHead = ['RULE', 'FIRING', 'CHANNELS', 'CHECKED', 'WHEN'];
export function ruleRow(rule: AlertRule, paint: Paint, now: number): string[] {
  return [
    rule.name,
    rule.firing > 0 ? paint('red', String(rule.firing)) : '0',
    rule.channels.join(', ') || '–',
    rule.enabled ? ago(rule.checked_at, now) : 'disabled',
    rule.error === null ? rule.wording : `${rule.wording} — ${oneLine(rule.error, max_chars)}`,
  ];
}

export const channelHead = ['CHANNEL', 'KIND', 'TO', 'DUE', 'DEAD', 'NOTE'];
export function channelRow(channel: Channel): string[] {
  const { name, kind, target, due, dead, note } = channel;
  return [name, kind, oneLine(target, max_chars), String(due), String(dead), oneLine(note ?? '', max_chars)];
}

export const silenceHead = ['SILENCE', 'RULE', 'GROUP', 'UNTIL', 'NOTE'];
export function silenceRow(silence: Silence, _paint: Paint, now: number): string[] {
  const { name, rule, group, until, active, note } = silence;
  return [name, rule ?? 'all', group ?? 'all', active ? ago(until, now) : 'over', oneLine(note ?? '', max_chars)];
}

export const deliveryHead = ['DELIVERY', 'STATE', 'TO', 'EVENT', 'ATTEMPTS', 'SINCE', 'ERROR'];
export function deliveryRow(delivery: Delivery, paint: Paint, now: number): string[] {
  return [
    delivery.delivery_id,
    delivery.state === 'dead' ? paint('red', 'dead') : delivery.state,
    delivery.channel ?? delivery.subscription ?? '',
    delivery.event,
    String(delivery.attempts),
    ago(delivery.created_at, now),
    oneLine(delivery.error ?? '', max_chars),
  ];
}

export const subscriptionHead = ['SUBSCRIPTION', 'STATE', 'EVENTS', 'TO', 'DUE', 'DEAD', 'READ UNTIL'];
export function subscriptionRow(subscription: Subscription, _paint: Paint, now: number): string[] {
  const { name, kinds, target, due, dead, read_until, paused_at } = subscription;
  const state = paused_at === null ? 'on' : 'paused';
  return [name, state, kinds.join(', '), oneLine(target, max_chars), String(due), String(dead), ago(read_until, now)];
}
