"""The same problem at four noise levels: which algorithms notice how little noise there is?"""
