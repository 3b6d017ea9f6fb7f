import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// `npm run dev` serves the pages itself and passes API calls to a running server (or to dev/mock.mjs).
const API_URL = process.env.BELLROCK_URL ?? "http://127.0.0.1:8425";

export default defineConfig({
  base: "/",
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  server: { proxy: { "/api": API_URL, "/healthz": API_URL } },
  build: {
    outDir: "dist",
    // The chart library is one chunk, loaded with the job page only.
    chunkSizeWarningLimit: 700,
    // The server's content security policy allows no data: scripts; keep assets as files.
    assetsInlineLimit: 0,
  },
  test: { environment: "node", include: ["src/**/*.test.{ts,tsx}"], testTimeout: 60_000 },
});
