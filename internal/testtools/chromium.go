//go:build unix

package testtools

import (
	"os/exec"
	"testing"
)

// Chromium returns a browser that runs without a screen: any Chromium or Chrome in PATH.
func Chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return Tool(t, "chromium", "to test the status page as a browser shows it", "apt-get install chromium-headless-shell fonts-dejavu-core", "brew install --cask chromium")
}
