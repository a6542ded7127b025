zl doctor >doctor.txt
cut -d" " -f1 doctor.txt
