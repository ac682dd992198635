suppressMessages({library(lme4);library(jsonlite)})
out<-list()
g<-grouseticks; g$BROOD<-as.character(g$BROOD); g$LOCATION<-as.character(g$LOCATION); g$YEAR<-as.character(g$YEAR)
ctl<-function() glmerControl(optimizer="bobyqa",tolPwrss=1e-13,optCtrl=list(rhoend=1e-11,maxfun=1e5))
keep<-function(f) list(ll=as.numeric(logLik(f)),fix=unname(fixef(f)),vc=unname(sapply(VarCorr(f),function(v) v[1,1])),terms=names(VarCorr(f)),
 re=lapply(ranef(f),function(r) as.list(setNames(r[,1],rownames(r)))),se=unname(sqrt(diag(as.matrix(vcov(f))))))
f<-glmer(TICKS~cHEIGHT+YEAR+(1|BROOD),g,family=poisson,nAGQ=50,control=ctl()); out$ticks<-keep(f)
# counts of several trials
f<-glmer(cbind(incidence,size-incidence)~period+(1|herd),cbpp,family=binomial,nAGQ=50,control=ctl()); out$cbpp_trials<-keep(f)
# two terms, by Laplace
f<-glmer(TICKS~cHEIGHT+YEAR+(1|BROOD)+(1|LOCATION),g,family=poisson,control=ctl()); out$ticks_nested<-keep(f)
p<-Penicillin; p$plate<-as.character(p$plate); p$sample<-as.character(p$sample); write.csv(p,"penicillin.csv",row.names=FALSE)
cc<-lmerControl(optimizer="bobyqa",optCtrl=list(rhoend=1e-12,maxfun=1e5),calc.derivs=FALSE)
f<-lmer(diameter~1+(1|plate)+(1|sample),p,REML=FALSE,control=cc); out$penicillin<-c(keep(f),list(sig=sigma(f)))
set.seed(7); d<-expand.grid(person=paste0("p",1:40),item=paste0("i",1:12),stringsAsFactors=FALSE); d<-d[runif(nrow(d))<0.8,]
d$x<-round(rnorm(nrow(d)),3); a<-setNames(rnorm(40,sd=1.1),paste0("p",1:40)); b<-setNames(rnorm(12,sd=0.7),paste0("i",1:12))
d$y<-rbinom(nrow(d),1,plogis(0.3+0.8*d$x+a[d$person]+b[d$item])); write.csv(d,"answers.csv",row.names=FALSE)
f<-glmer(y~x+(1|person)+(1|item),d,family=binomial,control=ctl()); out$answers<-keep(f)
out$versions<-list(R=R.version.string,lme4=as.character(packageVersion("lme4")))
write(toJSON(out,digits=NA,auto_unbox=TRUE),"glmm.json")
