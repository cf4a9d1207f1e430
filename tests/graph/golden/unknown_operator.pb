
2
xPlaceholder*
dtype0*
shape
:

sineSinx*
T0

yIdentitysine*
T0"ª