// Package price knows what instance types cost: on demand, from the price list of AWS, and as spot, per zone, from
// EC2.
//
// A Table always has prices of common types: until the price list was read, and where it cannot be reached, a
// built-in list of us-east-1 is used instead. Prices that are missing, zero or not a number are unknown, never cheap.
// Not here: discounts, Windows surcharges, what a node is worth.
//
// Start reading at New and Table.Refresh.
package price
