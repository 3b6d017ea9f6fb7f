import { useSyncExternalStore } from "react";

// The theme is this browser's choice, not the page's: it lives in localStorage, not in the URL.
// The document bears the outcome as data-theme, which the style sheet and the charts read.

export const THEME_CHOICES = ["system", "light", "dark"] as const;
export type ThemeChoice = (typeof THEME_CHOICES)[number];
export type Theme = "light" | "dark";

const STORAGE_KEY = "bellrock.theme";
const listeners = new Set<() => void>();
const darkQuery = () => window.matchMedia("(prefers-color-scheme: dark)");
let chosen: ThemeChoice | null = null;

function storedChoice(): ThemeChoice {
  try {
    const stored = localStorage.getItem(STORAGE_KEY);
    return THEME_CHOICES.find((one) => one === stored) ?? "system";
  } catch {
    return "system"; // storage may be forbidden; the choice then lasts as long as the page
  }
}

export function themeChoice(): ThemeChoice {
  chosen ??= storedChoice();
  return chosen;
}

export function currentTheme(): Theme {
  const choice = themeChoice();
  return choice === "system" ? (darkQuery().matches ? "dark" : "light") : choice;
}

function apply() {
  document.documentElement.dataset.theme = currentTheme();
  for (const listener of listeners) listener();
}

export function setThemeChoice(choice: ThemeChoice) {
  chosen = choice;
  try {
    localStorage.setItem(STORAGE_KEY, choice);
  } catch {
    // see storedChoice
  }
  apply();
}

/** Called once, before the first render. */
export function startTheme() {
  darkQuery().addEventListener("change", apply);
  apply();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useTheme(): { theme: Theme; choice: ThemeChoice } {
  const theme = useSyncExternalStore(subscribe, currentTheme);
  const choice = useSyncExternalStore(subscribe, themeChoice);
  return { theme, choice };
}
