import { THEME_CHOICES, setThemeChoice, useTheme, type ThemeChoice } from "@/shared/theme";

const ICONS: Record<ThemeChoice, string> = {
  system: "M3 4h14v9H3zM7 17h6M10 13v4",
  light: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 1.5v2M10 16.5v2M1.5 10h2M16.5 10h2M4 4l1.4 1.4M14.6 14.6 16 16M4 16l1.4-1.4M14.6 5.4 16 4",
  dark: "M16.5 12A7 7 0 0 1 8 3.5a7 7 0 1 0 8.5 8.5z",
};

/** Goes round system, light, dark. */
export function ThemeButton() {
  const { choice } = useTheme();
  const next = THEME_CHOICES[(THEME_CHOICES.indexOf(choice) + 1) % THEME_CHOICES.length] ?? "system";
  const label = `Theme: ${choice}. Change to ${next}`;
  return (
    <button type="button" className="icon-button" aria-label={label} title={label} onClick={() => setThemeChoice(next)} data-testid="theme" data-value={choice}>
      <svg width="18" height="18" viewBox="0 0 20 20" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
        <path d={ICONS[choice]} />
      </svg>
    </button>
  );
}
