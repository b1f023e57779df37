"""The deep half: MBPO and NARL, many seeds in one program."""
