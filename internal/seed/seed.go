package seed

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // defines the flag, before init runs
)

// Fixed is the seed of every property test. Another number would do as well; a change of it draws other values
// everywhere, and may find something.
const Fixed = "20261101"

const (
	seedFlag = "rapid.seed"
	explore  = "DOVETAIL_EXPLORE" // "1": a new seed in every run
)

// init sets the default of the flag. The command line is parsed later, and wins.
func init() {
	f := flag.Lookup(seedFlag)
	if f == nil {
		panic("rapid has no flag -" + seedFlag + " any more: property tests would draw other values in every run")
	}
	if os.Getenv(explore) == "1" || f.Value.String() != "0" { // rapid reads RAPID_SEED itself
		return
	}
	if err := f.Value.Set(Fixed); err != nil {
		panic(err)
	}
	f.DefValue = Fixed
}
