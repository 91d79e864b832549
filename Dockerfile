# Punctual in a container: `server` unless another command is given (`worker`, `start`, `migrate`, `doctor`, …).
#
#   docker build -t punctual .
#
# A container that others reach has to listen on 0.0.0.0. Then it asks for API keys (PUNCTUAL_AUTH=on makes and
# prints the first), or with PUNCTUAL_TRUST_NETWORK=true for none: publish its port on 127.0.0.1 then. See compose.yaml.
FROM node:20-bookworm-slim AS build
WORKDIR /app
COPY . .
RUN node scripts/bootstrap.mjs && npm prune --omit=dev
# What runs, without sources, tests and caches.
RUN mkdir /out \
  && cp -a --parents package.json LICENSE node_modules cli/bin server/src/store/migrations /out/ \
  && rm -f /out/node_modules/@punctual/testing \
  && for name in contract sdk server worker cli dashboard; do cp -a --parents "$name/package.json" "$name/dist" /out/; done \
  && find /out -path '*/dist/*' \( -name '*.test.*' -o -name '*.tsbuildinfo' -o -name '*.map' \) -not -path '*/node_modules/*' -delete

FROM node:20-bookworm-slim
ENV NODE_ENV=production PUNCTUAL_DATA_DIR=/data
RUN mkdir /data && chown node:node /data
VOLUME /data
WORKDIR /app
COPY --from=build /out ./
USER node
EXPOSE 7600
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PUNCTUAL_PORT || 7600}/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/app/cli/bin/punctual.js"]
CMD ["server"]
