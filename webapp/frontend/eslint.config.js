import js from "@eslint/js";
import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

// Imports go one way: shared → features → app. A feature knows no other feature.
const forbid = (...patterns) => ({
  "no-restricted-imports": ["error", { patterns: patterns.map(([group, message]) => ({ group, message })) }],
});
const FEATURES = ["jobs", "job", "findings", "servers", "status"];
const upward = [["../../*", "../**/app/*", "../**/features/*"], "use the @/ alias for another folder"];

export default tseslint.config(
  { ignores: ["dist", "node_modules"] },
  js.configs.recommended,
  ...tseslint.configs.recommended,
  { files: ["src/**/*.{ts,tsx}"], ...hooks.configs.flat["recommended-latest"] },
  {
    files: ["src/shared/**"],
    rules: forbid([["@/features", "@/features/**", "@/app", "@/app/**"], "shared imports neither features nor app"], upward),
  },
  ...FEATURES.map((feature) => ({
    files: [`src/features/${feature}/**`],
    rules: forbid(
      [["@/app", "@/app/**"], "a feature does not import app"],
      [FEATURES.filter((other) => other !== feature).flatMap((other) => [`@/features/${other}`, `@/features/${other}/**`]),
        "a feature does not import another feature; move it to shared"],
      upward,
    ),
  })),
  { files: ["dev/**"], languageOptions: { globals: { process: "readonly", URL: "readonly", console: "readonly", Buffer: "readonly" } } },
);
