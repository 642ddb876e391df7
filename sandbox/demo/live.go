package demo

import (
	"fmt"
	"io"
	"os"
	"time"
)

// liveLine is the one line that says what happens now. On a terminal it is written over; in a log, a new
// one follows when something changed.
type liveLine struct {
	out      io.Writer
	terminal bool
	last     string
	open     bool // the line on the terminal has no end yet
}

// updateLine writes the line if it says something new, with the time since an act began.
func (l *liveLine) updateLine(since time.Duration, text string) {
	switch {
	case l.terminal:
		fmt.Fprintf(l.out, "\r\x1b[K      %6.1f s  %s", since.Seconds(), text)
		l.open = true
	case text != l.last:
		fmt.Fprintf(l.out, "      %6.1f s  %s\n", since.Seconds(), text)
	}
	l.last = text
}

// finishLine finishes the line, so that others can be written.
func (l *liveLine) finishLine() {
	if l.open {
		fmt.Fprintln(l.out)
	}
	l.open, l.last = false, ""
}

// isTerminal says whether the output is a terminal.
func isTerminal(out io.Writer) bool {
	file, isFile := out.(*os.File)
	if !isFile {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
