// Package catalogue knows the instance types that the emulator offers: what EC2 says about them, where
// they are offered and at what price. The figures are real, for Linux in us-east-1: all 897 types of
// github.com/cristim/ec2-instances-info v0.0.0-20250528091325-32acf84f42eb (ec2instances.info, MIT; see
// NOTICE), kept in types.json.gz by the module in generate. What that source lacks, such as network
// cards, EFA, Neuron, enclaves and the three families with nested virtualization, is added by rules.go;
// spot.go moves spot prices over time.
//
// Not here: wire formats, filters, capacity, accounts and clocks. Start reading at Load.
package catalogue
