"""The operators, one file each: contract, checks, result, call into C++."""
