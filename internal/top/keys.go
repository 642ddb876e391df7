package top

import (
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// press changes the screen as a key demands.
func (m *Model) press(key tea.Key) tea.Cmd {
	name := key.Keystroke()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.typing:
		m.pressTyping(name, key.Text)
		return nil
	}
	if key.Text != "" {
		name = key.Text // shift is part of the character
	}
	switch name {
	case "q":
		return tea.Quit
	case "ctrl+r", "f5", "R":
		return m.refreshNow()
	case "?", "f1":
		m.openPage(helpDocument())
		return nil
	case "e":
		m.openPage(m.messages())
		return nil
	}
	if m.open != nil {
		if name == "esc" || name == "backspace" || name == "left" || name == "h" {
			m.open = nil
		} else {
			scroll(&m.open.page, name)
		}
		return nil
	}
	if m.pressTab(name) {
		return nil
	}
	if m.view == planView {
		scroll(&m.plan, name)
		return nil
	}
	return m.pressList(name)
}

// pressTyping edits the filter, which applies as it is typed.
func (m *Model) pressTyping(name, text string) {
	switch name {
	case "enter", "down", "up", "tab":
		m.typing = false
	case "esc":
		m.typing = false
		m.typeFilter("")
	case "backspace", "ctrl+h":
		typed := m.typed[m.view]
		if typed == "" {
			m.typing = false
			return
		}
		_, size := utf8.DecodeLastRuneInString(typed)
		m.typeFilter(typed[:len(typed)-size])
	case "ctrl+u", "ctrl+w":
		m.typeFilter("")
	default:
		if text != "" {
			m.typeFilter(m.typed[m.view] + text)
		}
	}
}

// typeFilter sets the filter of the view. Every view has its own.
func (m *Model) typeFilter(text string) {
	if l := m.list(m.view); l != nil {
		m.typed[m.view] = clean(text)
		l.search(parseFilter(m.typed[m.view]))
	}
}

// pressTab changes the view.
func (m *Model) pressTab(name string) bool {
	switch name {
	case "1", "2", "3", "4", "5":
		m.view = int(name[0] - '1')
	case "tab", "right", "l":
		m.view = (m.view + 1) % views
	case "shift+tab", "left", "h":
		m.view = (m.view + views - 1) % views
	default:
		return false
	}
	return true
}

// pressList handles the keys of a table.
func (m *Model) pressList(name string) tea.Cmd {
	l := m.list(m.view)
	_, all := l.counts()
	switch name {
	case "up", "k":
		l.move(-1)
	case "down", "j":
		l.move(1)
	case "pgup", "ctrl+b", "ctrl+u":
		l.page(-1)
	case "pgdown", "ctrl+f", "ctrl+d", "space", " ":
		l.page(1)
	case "home", "g":
		l.move(-all)
	case "end", "G":
		l.move(all)
	case "s":
		l.sort(1)
	case "S":
		l.sort(-1)
	case "r":
		l.reverse()
	case "b":
		m.turned++
		m.setBars(m.bars.rotate(1))
	case "/":
		m.typing = true
	case "esc":
		m.typeFilter("")
	case "enter":
		return m.explainSelected(l)
	}
	return nil
}

func (m *Model) explainSelected(l list) tea.Cmd {
	about, ok := l.subject()
	if !ok {
		return nil
	}
	m.openPage(inspect.Document{Title: about.String(), Answer: "Explaining …"})
	m.open.about = about
	return m.requestExplanation()
}

// openPage shows a page above the views.
func (m *Model) openPage(d inspect.Document) {
	m.open = &opened{}
	m.open.width = m.width
	m.open.show(d)
}

func scroll(p *page, name string) {
	switch name {
	case "up", "k":
		p.scroll(-1)
	case "down", "j", "enter":
		p.scroll(1)
	case "pgup", "ctrl+b", "ctrl+u":
		p.scroll(-max(p.height-1, 1))
	case "pgdown", "ctrl+f", "ctrl+d", "space", " ":
		p.scroll(max(p.height-1, 1))
	case "home", "g":
		p.scroll(-len(p.lines))
	case "end", "G":
		p.scroll(len(p.lines))
	}
}
