package price

import (
	_ "embed"
	"math"
	"strconv"
	"strings"
)

// builtIn is the on-demand price of Linux in us-east-1, one "name price" per line, sorted by name. It
// is a copy of the public price list; TestBuiltInList says what a new copy must look like.
//
//go:embed us-east-1.txt
var builtIn string

// fallback reads the built-in list. Lines that cannot be read are left out: an unknown price is safe.
func fallback() map[string]float64 {
	prices := make(map[string]float64, strings.Count(builtIn, "\n"))
	for line := range strings.Lines(builtIn) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if usd, known := parseUSD(text); known {
			prices[name] = usd
		}
	}
	return prices
}

// parseUSD reads a price. Zero, negative and absurd numbers are not prices (P02).
func parseUSD(text string) (float64, bool) {
	usd, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(usd) || math.IsInf(usd, 0) || usd <= 0 {
		return 0, false
	}
	return usd, true
}
