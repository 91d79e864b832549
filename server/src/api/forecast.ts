// The forecast at the door.
import { forecastRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { Forecaster } from '../scheduler/forecast.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerForecast(app: FastifyInstance, { db, allSegments }: ApiParts): void {
  const forecaster = new Forecaster({ db, segments: allSegments });
  register(app, forecastRoutes.getForecastMinute, ({ query }) => forecaster.minute(query));
  register(app, forecastRoutes.getForecast, ({ query }) => forecaster.get(query));
}
