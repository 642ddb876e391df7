// Package browser tests the page of internal/console in a real browser, headless Chromium. It is a module of its own, so
// that the driver of the browser is no dependency of the program. The tests assert on what the page contains, and wait for
// conditions, never for time. Without Debian's package chromium they are skipped.
//
//	go test . -run TestScreenshots -screenshots DIR
//
// writes the pictures of the documentation, for a person to look at. Start reading at newPage.
package browser
