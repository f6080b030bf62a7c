# npm: install of a local path, a postinstall script, run, npx
home_may_be_written || export npm_config_cache=$PWD/cache
mkdir -p lib app
echo '{"name":"lib","version":"1.0.0","main":"main.js","bin":"main.js","scripts":{"postinstall":"echo ran >ran"}}' >lib/package.json
printf '#!/usr/bin/env node\nmodule.exports = 42; if (require.main === module) console.log("lib runs");\n' >lib/main.js
chmod +x lib/main.js
echo '{"name":"app","version":"1.0.0","scripts":{"start":"node -p \"require(\\\"lib\\\")\""}}' >app/package.json
cd app
npm install --offline --no-audit --no-fund --install-links ../lib
is "$(cat node_modules/lib/ran)" ran
is "$(npm run --silent start)" 42
is "$(npx --offline lib)" 'lib runs'
